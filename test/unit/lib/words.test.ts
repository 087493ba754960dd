import { describe, expect, it } from 'vitest';

import {
  ERROR_RULES,
  EXIT_CODES,
  exitCodeOf,
  MirrorError,
  toMirrorError,
} from '../../../src/lib/errors/errors.ts';
import { counted, printable, roughDuration, roughSize, utcTime } from '../../../src/lib/text/humanize.ts';
import { likely, nearest } from '../../../src/lib/text/nearest.ts';

const CODES = Object.keys(ERROR_RULES) as (keyof typeof ERROR_RULES)[];

describe('errors', () => {
  it.each(CODES)('%s has a rule that says what happens and how a command ends', (code) => {
    const error = new MirrorError(code, 'what happened');
    expect(['retry', 'hold', 'quarantine', 'stall', 'exit']).toContain(error.action);
    expect(Object.values(EXIT_CODES)).toContain(exitCodeOf(error));
    expect(exitCodeOf(error)).not.toBe(EXIT_CODES.ok);
  });

  it.each([
    ['usage.invalid', 2],
    ['settings.invalid', 2],
    ['credentials.refused', 3],
    ['service.unreachable', 3],
    ['listing.inconsistent', 3],
    ['contents.not_found', 1],
    ['archive.refused', 1],
    ['directory.locked', 4],
    ['internal.defect', 70],
  ] as const)('%s ends a command with %i', (code, exitCode) => {
    expect(exitCodeOf(new MirrorError(code, ''))).toBe(exitCode);
  });

  it('carry message, hint, cause and wish', () => {
    const cause = new Error('inner');
    const error = new MirrorError('service.busy', 'what happened', {
      hint: 'do this',
      cause,
      retryAfterMs: 5,
    });
    expect(error).toMatchObject({
      name: 'MirrorError',
      message: 'what happened',
      hint: 'do this',
      retryAfterMs: 5,
    });
    expect(error.cause).toBe(cause);
    expect('cause' in new MirrorError('service.busy', 'what happened')).toBe(false);
  });

  it('that are ours stay what they are', () => {
    const error = new MirrorError('disk.full', 'full');
    expect(toMirrorError(error)).toBe(error);
  });

  it.each([new TypeError('x is not a function'), 'text', 7, null, undefined, { message: 'no error' }])(
    'that are not ours are defects: %s',
    (thrown) => {
      const error = toMirrorError(thrown);
      expect(error).toMatchObject({ code: 'internal.defect', action: 'exit' });
      expect(error.hint).toMatch(/report it/);
      expect(exitCodeOf(thrown)).toBe(EXIT_CODES.defect);
    },
  );

  it('that are not ours keep their message and are the cause', () => {
    const thrown = new RangeError('out of range');
    expect(toMirrorError(thrown)).toMatchObject({ message: 'out of range', cause: thrown });
  });
});

describe('words for a person', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [12_345, '12.3 kB'],
    [123_456, '123 kB'],
    [1_234_567, '1.2 MB'],
    [150_000_000, '150 MB'],
    [2_500_000_000, '2.5 GB'],
    [7_000_000_000_000, '7000 GB'],
  ])('%i bytes are %s', (sizeBytes, text) => {
    expect(roughSize(sizeBytes)).toBe(text);
  });

  it.each([
    [-5, '0 ms'],
    [0, '0 ms'],
    [999, '999 ms'],
    [1400, '1.4 s'],
    [10_000, '10 s'],
    [119_000, '119 s'],
    [180_000, '3 min'],
    [7_199_000, '120 min'],
    [7_200_000, '2 h'],
    [172_800_000, '2 days'],
    [864_000_000, '10 days'],
  ])('%i ms are %s', (durationMs, text) => {
    expect(roughDuration(durationMs)).toBe(text);
  });

  it.each([
    [0, '0 files'],
    [1, '1 file'],
    [2, '2 files'],
  ])('%i is counted as %s', (count, text) => {
    expect(counted(count, 'file')).toBe(text);
  });

  it('give times in UTC, to the second', () => {
    expect(utcTime(Date.UTC(2025, 0, 2, 3, 4, 5, 678))).toBe('2025-01-02T03:04:05Z');
  });

  it.each([
    ['plain text, ÄÖÜ 表 😀', 'plain text, ÄÖÜ 表 😀'],
    ['a\nb\tc', String.raw`a\u000ab\u0009c`],
    ['\u001b[2J', String.raw`\u001b[2J`],
    ['\u009b31m', String.raw`\u009b31m`],
    ['\u0000', String.raw`\u0000`],
    ['\u202egpj.exe', String.raw`\u202egpj.exe`],
    ['\u2066x\u2069', String.raw`\u2066x\u2069`],
  ])('show %j without its control characters', (text, shown) => {
    expect(printable(text)).toBe(shown);
  });
});

describe('the nearest name', () => {
  it.each([
    ['servce', ['service', 'schedule'], 'service'],
    ['SCHEDULE', ['service', 'schedule'], 'schedule'],
    ['apiKey', ['directory', 'service.apiKey'], 'service.apiKey'],
    ['apiKey', ['service.apiKey', 'apikey'], 'apikey'],
    ['x.apiKey', ['service.apiKey', 'http.listen'], 'service.apiKey'],
    ['b', ['a', 'c'], 'a'],
  ])('to %j of %j is %j', (name, candidates, found) => {
    expect(nearest(name, candidates)).toBe(found);
  });

  it('is none of none, and is found for a very long name too', () => {
    expect(nearest('x', [])).toBeUndefined();
    expect(nearest('x'.repeat(100_000), ['y', 'x'])).toBe('x');
  });
});

describe('a name that may have been meant', () => {
  it.each([
    ['accounting/mian', 'Accounting/main'],
    ['Accounting', 'Accounting/main'],
    ['mirror/Accounting/main/plan.xlsx', 'Accounting/main'],
    ['nothing/like/that', undefined],
    ['x', undefined],
  ])('is told only within a sensible distance: %j', (name, expected) => {
    expect(likely(name, ['Accounting/main', 'github.com/org/planning.git/release'])).toBe(expected);
  });
});
