import { describe, expect, it } from 'vitest';

import { durationText, printable, sentence, sizeText } from '../../../../src/lib/page/text.js';
import { roughSize } from '../../../../src/lib/text/humanize.ts';

describe('the text of the pages', () => {
  it.each([0, 1, 999, 1000, 12_345, 99_949, 100_000, 999_999, 1e6, 5.5e8, 1e9, 9.9e11])(
    'writes a size of %d bytes as the command line does',
    (sizeBytes) => expect(sizeText(sizeBytes)).toBe(roughSize(sizeBytes)),
  );

  it.each([
    [-5, '0 ms'],
    [999, '999 ms'],
    [1000, '1.0 s'],
    [119_999, '120 s'],
    [120_000, '2 min'],
    [7_200_000, '2 h'],
    [172_800_000, '2 days'],
  ])('tells a duration of %d ms as %s', (durationMs, text) => expect(durationText(durationMs)).toBe(text));

  it('makes sentences', () => {
    expect(['is it', 'it is!', 'it'].map(sentence)).toEqual(['Is it.', 'It is!', 'It.']);
  });

  it('makes characters visible that hide, reverse or break text', () => {
    expect(printable('\u202Ea\u0000\n\u2028\uD800\u200B\u{E0041}')).toBe(
      String.raw`\u202ea\u0000\u000a\u2028\ud800\u200b\u{e0041}`,
    );
  });

  it.each(['plain', 'עברית', '👩‍💻', 'a\u200Cb'])('shows %j as it is', (text) =>
    expect(printable(text)).toBe(text),
  );
});
