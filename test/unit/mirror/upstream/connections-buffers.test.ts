import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { ReceiveBuffers } from '../../../../src/mirror/upstream/connections.ts';

const SIZE_BYTES = 64;

/** Reads bytes, all of one value, as a socket does, and hands them out in so many pieces. */
function read(buffers: ReceiveBuffers, value: number, sizeBytes = SIZE_BYTES, pieces = 1): Uint8Array[] {
  const buffer = buffers.take();
  buffer.fill(value, 0, sizeBytes);
  const lent = buffers.lend(buffer, sizeBytes);
  const length = Math.ceil(sizeBytes / pieces);
  return Array.from({ length: pieces }, (_, at) => lent.subarray(at * length, (at + 1) * length))
    .filter((piece) => piece.length > 0)
    .map((piece) => {
      buffers.handOut(piece);
      return piece;
    });
}

/** Reads bytes that are handed out in one piece. */
function readOne(buffers: ReceiveBuffers, value: number, sizeBytes?: number): Uint8Array {
  return read(buffers, value, sizeBytes)[0] ?? Buffer.alloc(0);
}

/** One read, and what its readers do with its pieces: each is given back after so many further reads, or never. */
const step = fc.record({
  readBytes: fc.integer({ min: 1, max: SIZE_BYTES }),
  returnsAfter: fc.array(fc.option(fc.nat({ max: 5 }), { nil: null }), { minLength: 1, maxLength: 4 }),
});

describe('a buffer', () => {
  it('is used again once its bytes were given back', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const first = readOne(buffers, 1);
    expect(readOne(buffers, 2).buffer).not.toBe(first.buffer);
    buffers.giveBack(first);
    expect(readOne(buffers, 3).buffer).toBe(first.buffer);
  });

  it.each([
    [[0, 1, 2], true],
    [[2, 0, 1], true],
    [[0, 1], false],
    [[1, 2], false],
    [[2, 2, 2], false],
  ])('of three pieces, of which %j were given back, is used again: %s', (given, isUsed) => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const pieces = read(buffers, 1, 60, 3);
    for (const at of given) buffers.giveBack(pieces[at] ?? Buffer.alloc(0));
    expect(buffers.take().buffer === pieces[0]?.buffer).toBe(isUsed);
  });

  it('is used again only when its last bytes were handed out, too', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const lent = buffers.lend(buffers.take(), 60);
    const [first, last] = [lent.subarray(0, 40), lent.subarray(40)];
    buffers.handOut(first);
    buffers.giveBack(first);
    expect(buffers.take().buffer).not.toBe(lent.buffer);
    buffers.handOut(last);
    buffers.giveBack(last);
    expect(buffers.take().buffer).toBe(lent.buffer);
  });

  it('that is hardly filled is used again at once: its bytes are copied', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const small = readOne(buffers, 1, 7);
    const next = buffers.take();
    expect(small.buffer).not.toBe(next.buffer);
    next.fill(2);
    expect([...small]).toEqual(Array.from({ length: 7 }, () => 1));
    expect(buffers.lend(next, 8).buffer).toBe(next.buffer);
  });

  it('is not made of what comes from elsewhere, of a part of a piece, nor twice of one', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const foreign = Buffer.alloc(SIZE_BYTES);
    buffers.handOut(foreign);
    buffers.giveBack(foreign);
    const lent = readOne(buffers, 1);
    buffers.giveBack(lent.subarray(8));
    const other = buffers.take();
    buffers.giveBack(lent);
    buffers.giveBack(lent);
    const taken = [other, buffers.take(), buffers.take()].map(({ buffer }) => buffer);
    expect(new Set([foreign.buffer, ...taken]).size).toBe(4);
  });

  it('never changes while its readers have it, whatever is given back, and in whatever turn', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
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
