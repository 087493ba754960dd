import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { beginningOf, oneLine } from '../../../../src/lib/text/humanize.ts';

describe('text of several lines in one', () => {
  const text = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', 'a', '\u00a0', '.') });

  it('has one space for each line break with the space around it', () => {
    fc.assert(
      fc.property(text, (each) => {
        expect(oneLine(each)).toBe(each.replaceAll(/\s*\n\s*/g, ' '));
      }),
    );
  });

  it('comes to an end for much space without a line break', () => {
    const space = ' '.repeat(3_000_000);
    expect(oneLine(`a${space}b`)).toBe(`a${space}b`);
    expect(oneLine(`a\n${space}b`)).toBe('a b');
  });
});

it('of a long message the beginning is looked at', () => {
  expect(beginningOf('short')).toBe('short');
  expect(beginningOf('x'.repeat(1_000_000))).toBe(`${'x'.repeat(2000)}…`);
});
