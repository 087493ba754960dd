import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ReceiveBuffers } from '../../../../src/mirror/upstream/connections.ts';

const SIZE_BYTES = 64;

/** Reads equal bytes, as a socket does, and gives them in a number of pieces. */
function read(buffers: ReceiveBuffers, value: number, sizeBytes = SIZE_BYTES, pieces = 1): Uint8Array[] {
  const buffer = buffers.take();
  buffer.fill(value, 0, sizeBytes);
  const lent = buffers.lend(buffer, sizeBytes);
  const length = Math.ceil(sizeBytes / pieces);
  const parts = Array.from({ length: pieces }, (_, at) => lent.subarray(at * length, (at + 1) * length));
  // Empty pieces never reach a reader, so none comes back.
  return parts.filter((part) => part.length > 0);
}

/** One read. Its pieces are released, in order, after a number of further reads or never. */
const step = fc.record({
  readBytes: fc.integer({ min: 1, max: SIZE_BYTES }),
  returnsAfter: fc
    .tuple(fc.array(fc.nat({ max: 5 }), { maxLength: 4 }), fc.nat({ max: 2 }))
    .map(([afters, never]): (number | null)[] => {
      const held: (number | null)[] = afters.toSorted((a, b) => a - b);
      for (let left = afters.length === 0 ? 1 : never; left > 0; left -= 1) held.push(null);
      return held;
    }),
});

describe('a buffer', () => {
  it('is used again once its bytes were released', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const [first = Buffer.alloc(0)] = read(buffers, 1);
    expect(read(buffers, 2)[0]?.buffer).not.toBe(first.buffer);
    buffers.giveBack(first);
    buffers.giveBack(first);
    expect(read(buffers, 3)[0]?.buffer).toBe(first.buffer);
    expect(read(buffers, 4)[0]?.buffer).not.toBe(first.buffer);
  });

  it('never changes while its readers have it, for any order of releases', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const buffers = new ReceiveBuffers(SIZE_BYTES);
        const held = new Map<Uint8Array, number>();
        const due = new Map<number, Uint8Array[]>();
        for (const [at, { readBytes, returnsAfter }] of steps.entries()) {
          for (const [index, piece] of read(buffers, at, readBytes, returnsAfter.length).entries()) {
            held.set(piece, at);
            const after = returnsAfter[index] ?? null;
            if (after !== null) due.set(at + after, [...(due.get(at + after) ?? []), piece]);
          }
          for (const piece of due.get(at) ?? []) {
            held.delete(piece);
            buffers.giveBack(piece);
          }
          for (const [piece, value] of held) expect(piece.every((byte) => byte === value)).toBe(true);
        }
      }),
    );
  });
});
