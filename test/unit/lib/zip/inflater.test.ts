import { deflateRawSync, inflateRawSync } from 'node:zlib';

import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { Inflater } from '../../../../src/lib/zip/inflater.ts';

/** Inflates pieces into a buffer of a given size. @returns the bytes, and how many were used */
function inflated(inflater: Inflater, deflated: Buffer, pieceBytes: number, bufferBytes: number) {
  inflater.reset();
  const made: Buffer[] = [];
  const buffer = Buffer.alloc(bufferBytes);
  let used = 0;
  for (let start = 0; start < deflated.length; start += pieceBytes) {
    const piece = deflated.subarray(start, start + pieceBytes);
    for (let at = 0; ;) {
      const { usedBytes, madeBytes } = inflater.inflate(piece.subarray(at), buffer, 0, false);
      made.push(Buffer.from(buffer.subarray(0, madeBytes)));
      used += usedBytes;
      at += usedBytes;
      if (madeBytes === bufferBytes) continue;
      if (at < piece.length) return { bytes: Buffer.concat(made), usedBytes: used };
      break;
    }
  }
  return { bytes: Buffer.concat(made), usedBytes: used };
}

it('an inflater gives the output of zlib, in pieces of any size, even after damage', () => {
  const inflater = new Inflater();
  const piece = fc.tuple(fc.uint8Array({ maxLength: 40 }), fc.integer({ min: 1, max: 3000 }));
  const damage = fc.record({
    cut: fc.option(fc.nat(100), { freq: 4 }),
    flip: fc.option(fc.nat(100), { freq: 4 }),
    behind: fc.uint8Array({ maxLength: 3 }),
  });
  const sizes = fc.tuple(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 5000 }));
  const plainBytes = fc
    .array(piece, { maxLength: 5 })
    .map((pieces) => Buffer.concat(pieces.flatMap(([bytes, times]) => Array<Uint8Array>(times).fill(bytes))));
  fc.assert(
    fc.property(plainBytes, damage, sizes, (plain, { cut, flip, behind }, [pieceBytes, bufferBytes]) => {
      const whole = deflateRawSync(plain);
      const deflated = Buffer.concat([whole.subarray(0, cut ?? whole.length), behind]);
      if (flip !== null && flip < deflated.length) deflated[flip] = (deflated[flip] ?? 0) ^ 4;
      const expected = attempt(() => inflateRawSync(deflated));
      const found = attempt(() => inflated(inflater, deflated, pieceBytes, bufferBytes).bytes);
      if (expected !== null) expect(found?.equals(expected)).toBe(true);
    }),
    { numRuns: 500 },
  );
});

it.each([1, 7, 10_000])('an inflater says how much input it used, in pieces of %i bytes', (pieceBytes) => {
  const whole = deflateRawSync(Buffer.from('abc'.repeat(1000)));
  const longer = Buffer.concat([whole, Buffer.from('more')]);
  const { bytes, usedBytes } = inflated(new Inflater(), longer, pieceBytes, 100);
  expect([bytes.length, usedBytes]).toEqual([3000, whole.length]);
});

it('an inflater throws the errors of zlib, and inflates the next input', () => {
  const inflater = new Inflater();
  expect(() => inflated(inflater, Buffer.from('ffffffff', 'hex'), 4, 100)).toThrow(
    expect.objectContaining({ code: 'Z_DATA_ERROR' }),
  );
  const whole = deflateRawSync(Buffer.from('abc'.repeat(1000)));
  expect(inflated(inflater, whole, 100, 100).bytes.toString()).toBe('abc'.repeat(1000));
});

function attempt(work: () => Buffer): Buffer | null {
  try {
    return work();
  } catch {
    return null;
  }
}
