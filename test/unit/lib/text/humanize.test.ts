import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import * as humanize from '../../../../src/lib/text/humanize.ts';

const { beginningOf, oneLine, roughDuration, roughSize, utcTime } = humanize;

describe('text of several lines in one', () => {
  const text = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', 'a', '\u00a0', '.') });

  it('has one space in place of each line break and the space around it', () => {
    fc.assert(
      fc.property(text, (each) => {
        expect(oneLine(each)).toBe(each.replaceAll(/\s*\n\s*/g, ' '));
      }),
    );
  });

  it('finishes soon for much space without a line break', () => {
    const space = ' '.repeat(3_000_000);
    expect(oneLine(`a${space}b`)).toBe(`a${space}b`);
    expect(oneLine(`a\n${space}b`)).toBe('a b');
  });
});

it('beginningOf cuts a long message', () => {
  expect(beginningOf('short')).toBe('short');
  expect(beginningOf('x'.repeat(1_000_000))).toBe(`${'x'.repeat(2000)}…`);
});

describe('words for a person', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [123_456, '123 kB'],
    [1_234_567, '1.2 MB'],
    [7_000_000_000_000, '7.0 TB'],
  ])('%i bytes are %s', (sizeBytes, text) => {
    expect(roughSize(sizeBytes)).toBe(text);
  });

  it.each([
    [-5, '0 ms'],
    [999, '999 ms'],
    [1000, '1.0 s'],
    [10_000, '10 s'],
    [119_999, '120 s'],
    [120_000, '2 min'],
    [7_199_000, '120 min'],
    [7_200_000, '2 h'],
    [172_800_000, '2 days'],
    [864_000_000, '10 days'],
  ])('%i ms are %s', (durationMs, text) => {
    expect(roughDuration(durationMs)).toBe(text);
  });

  it('give times in UTC, to the second', () => {
    expect(utcTime(Date.UTC(2025, 0, 2, 3, 4, 5, 678))).toBe('2025-01-02T03:04:05Z');
  });
});
