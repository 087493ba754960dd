import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { formatDuration, formatSize, parseDuration, parseSize } from '../../../../src/lib/text/units.ts';

const hours = fc.nat(1000).map((n) => n * 3_600_000);
const wholeNumber = fc.oneof(fc.maxSafeNat(), fc.nat({ max: 10_000 }), hours);

describe('durations', () => {
  it.each([
    ['90s', 90_000],
    ['1h30m', 5_400_000],
    ['1h 30m', 5_400_000],
    [' 5 m ', 300_000],
    ['1.5h', 5_400_000],
    ['1.001s', 1001],
    ['1h90m', 9_000_000],
    ['1d2h3m4s5ms', 93_784_005],
    ['9007199254740991ms', Number.MAX_SAFE_INTEGER],
    ['000000000000000000000000000000000000000000000000000000000005s', 5000],
  ])('reads %j', (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each(['5', '0', ' 10 ', '1.5'])('refuses the bare number %j and asks for a unit', (text) => {
    expect(() => parseDuration(text)).toThrow(/with its unit/);
  });

  it.each(['', '-5s', '5M', '1e3s', '1,5h', '.5h', '5.h', '1h  30m', '1h30', '٥s', `${'9'.repeat(100)}s`])(
    'refuses %j',
    (text) => {
      expect(() => parseDuration(text)).toThrow(MirrorError);
    },
  );

  it.each([
    ['30m1h', /larger unit first/],
    ['1h2m3m', /larger unit first/],
    ['0.0001s', /whole milliseconds/],
    ['9007199254740992ms', /shorter/],
  ])('refuses %j with the reason %s', (text, reason) => {
    expect(() => parseDuration(text)).toThrow(reason);
  });

  it('reads back what it writes', () => {
    fc.assert(fc.property(wholeNumber, (ms) => parseDuration(formatDuration(ms)) === ms));
  });

  it('writes the shortest exact form', () => {
    const written = [0, 1, 1000, 90_000, 5_400_000, 86_400_000].map(formatDuration);
    expect(written).toEqual(['0s', '1ms', '1s', '1m30s', '1h30m', '1d']);
  });
});

describe('sizes', () => {
  it.each([
    ['0', 0],
    ['123', 123],
    ['10K', 10_000],
    ['10Ki', 10_240],
    ['500MB', 500_000_000],
    ['2 GiB', 2_147_483_648],
    ['1.5KiB', 1536],
    ['3T', 3_000_000_000_000],
    ['1PiB', 2 ** 50],
  ])('reads %j', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(['', 'k', '-1k', '1 zb', '1e3', '1,5k', '1  k', '1.k', '1.5', '9000 PiB'])('refuses %j', (text) => {
    expect(() => parseSize(text)).toThrow(MirrorError);
  });

  it('reads back what it writes', () => {
    const multiple = fc.tuple(fc.nat(5000), fc.constantFrom(2 ** 30, 1e9)).map(([n, unit]) => n * unit);
    const sizes = fc.oneof(wholeNumber, multiple);
    fc.assert(fc.property(sizes, (bytes) => parseSize(formatSize(bytes)) === bytes));
  });

  it('writes the largest unit that divides', () => {
    const written = [0, 1, 1000, 1024, 1_048_576, 500_000_000, 2_147_483_648].map(formatSize);
    expect(written).toEqual(['0 B', '1 B', '1 kB', '1 KiB', '1 MiB', '500 MB', '2 GiB']);
  });
});
