import { createInflateRaw, deflateRawSync, inflateRawSync } from 'node:zlib';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { createInflater, type Inflater } from '../../../../src/mirror/file-work/inflater.ts';

/** As of a Node that has not the parts by which an inflater is used again. */
function withoutParts(): Inflater {
  return createInflater(() => Object.assign(createInflateRaw(), { _writeState: undefined }));
}

describe.each([
  ['used again and again', createInflater],
  ['made anew for each call', withoutParts],
])('an inflater %s', (_what, create) => {
  it('is of its kind', () => {
    expect(create().constructor.name === 'ReusedInflater').toBe(create === createInflater);
  });

  it('gives what zlib gives, also after damage', () => {
    const inflater = create();
    const piece = fc.tuple(fc.uint8Array({ maxLength: 40 }), fc.integer({ min: 1, max: 3000 }));
    const damage = fc.record({
      cut: fc.option(fc.nat(100), { freq: 4 }),
      flip: fc.option(fc.nat(100), { freq: 4 }),
      tail: fc.uint8Array({ maxLength: 3 }),
      lessBytes: fc.option(fc.nat(50), { freq: 4 }),
    });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 5 }), damage, (pieces, { cut, flip, tail, lessBytes }) => {
        const plain = Buffer.concat(pieces.map(([bytes, times]) => Buffer.concat(Array(times).fill(bytes))));
        const whole = deflateRawSync(plain);
        const deflated = Buffer.concat([whole.subarray(0, cut ?? whole.length), tail]);
        if (flip !== null && flip < deflated.length) deflated[flip] = (deflated[flip] ?? 0) ^ 4;
        const sizeBytes = Math.max(0, plain.length - (lessBytes ?? 0));
        const expected = attempt(() => inflateRawSync(deflated, { maxOutputLength: 2 ** 26 }));
        const found = attempt(() => inflater.inflate(deflated, sizeBytes).bytes);
        if (expected === null) expect(found === null || found.length > sizeBytes).toBe(true);
        else if (found === null) expect(expected.length).toBeGreaterThan(sizeBytes);
        else expect(expected.subarray(0, sizeBytes + 1).equals(found)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('says how much it used', () => {
    const whole = deflateRawSync(Buffer.from('abc'.repeat(1000)));
    const { bytes, usedBytes } = create().inflate(Buffer.concat([whole, Buffer.from('more')]), 3000);
    expect([bytes.length, usedBytes]).toEqual([3000, whole.length]);
  });

  it('throws what zlib throws, and inflates the next', () => {
    const inflater = create();
    const whole = deflateRawSync(Buffer.from('abc'.repeat(1000)));
    expect(() => inflater.inflate(whole.subarray(0, 5), 3000)).toThrow(
      expect.objectContaining({ code: 'Z_BUF_ERROR' }),
    );
    expect(() => inflater.inflate(Buffer.from('ffffffff', 'hex'), 3000)).toThrow(
      expect.objectContaining({ code: 'Z_DATA_ERROR' }),
    );
    expect(inflater.inflate(whole, 3000).bytes.toString()).toBe('abc'.repeat(1000));
  });
});

function attempt(work: () => Buffer): Buffer | null {
  try {
    return work();
  } catch {
    return null;
  }
}
