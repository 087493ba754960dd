import { describe, expect, it } from 'vitest';

import { printable, sentence, sizeText } from '../../../../src/lib/page/text.js';
import { roughSize } from '../../../../src/lib/text/humanize.ts';

describe('the text of the pages', () => {
  it.each([0, 1, 999, 1000, 12_345, 99_949, 100_000, 999_999, 1e6, 5.5e8, 1e9, 9.9e11])(
    'writes a size of %d bytes as the command line does',
    (sizeBytes) => expect(sizeText(sizeBytes)).toBe(roughSize(sizeBytes)),
  );

  it('rounds the bytes of a rate', () => {
    expect([sizeText(9.7586), roughSize(0.15)]).toEqual(['10 B', '0 B']);
  });

  it('makes sentences', () => {
    expect(['is it', 'it is!', 'it'].map(sentence)).toEqual(['Is it.', 'It is!', 'It.']);
  });

  it('shows a character between letters of some scripts as it is', () => {
    expect(printable('a\u200Cb')).toBe('a\u200Cb');
  });
});
