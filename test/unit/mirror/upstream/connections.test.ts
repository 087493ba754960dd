import { Readable } from 'node:stream';

import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { type BodyBounds, readBody } from '../../../../src/mirror/upstream/answers.ts';
import { ReceiveBuffers } from '../../../../src/mirror/upstream/connections.ts';

const BOUNDS: BodyBounds = {
  maxBytes: 1e9,
  leastBytes: 64 * 1024,
  tooLarge: () => new MirrorError('contents.too_large', 'too large'),
  tooSlow: (durationMs) => new MirrorError('service.timeout', `too slow: ${durationMs}`),
};

describe('a body', () => {
  it.each([
    [100, 0, false],
    [101, 0, true],
    [70, 30, false],
    [70, 31, true],
  ])('of %i bytes after %i where 100 are allowed is too large: %s', async (sizeBytes, before, isTooLarge) => {
    const body = Readable.from([Buffer.alloc(60), Buffer.alloc(sizeBytes - 60)]);
    const read = takeAll(body, { ...BOUNDS, maxBytes: 100 }, 0, before);
    if (isTooLarge) await expect(read).rejects.toMatchObject({ code: 'contents.too_large' });
    else expect(await read).toBe(sizeBytes);
  });

  describe('that comes slowly', () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => {
      expect(vi.getTimerCount()).toBe(0);
      vi.useRealTimers();
    });

    it.each([
      ['not after its time, if all of it must come', 64 * 1024, 0, Number.POSITIVE_INFINITY, true],
      ['as long as it likes, if it moves', 8 * 1024, 0, 64 * 1024, false],
      ['not as long as it likes, if it hardly moves', 1, 0, 64 * 1024, true],
      ['slowly, if it is we who hardly take it', 1, 999, 64 * 1024, false],
    ])('may be read %s', async (_what, bytesASecond, ownMs, leastBytes, isBrokenOff) => {
      const body = new Readable({ read: () => {} });
      const read = takeAll(body, { ...BOUNDS, leastBytes }, ownMs).catch((error: unknown) => error);
      for (let second = 0; second < 60 && !body.destroyed; second += 1) {
        await vi.advanceTimersByTimeAsync(1000 - ownMs);
        body.push(Buffer.alloc(bytesASecond));
        await vi.advanceTimersByTimeAsync(ownMs);
      }
      expect(body.destroyed).toBe(isBrokenOff);
      body.push(null);
      await vi.advanceTimersByTimeAsync(1000);
      if (isBrokenOff) expect(await read).toMatchObject({ message: 'too slow: 10000' });
      else expect(await read).toBe(60 * bytesASecond);
    });
  });
});

/** Reads a body to its end. @param ownMs how long each piece takes its reader @returns how many bytes there were */
async function takeAll(body: Readable, bounds: BodyBounds, ownMs = 0, beforeBytes = 0): Promise<number> {
  let sizeBytes = 0;
  for await (const piece of readBody({ body }, { timeoutMs: 1000 }, bounds, beforeBytes)) {
    sizeBytes += piece.length;
    if (ownMs > 0) await new Promise((resolve) => void setTimeout(resolve, ownMs));
  }
  return sizeBytes;
}

const SIZE_BYTES = 64;

/** Reads bytes, all of one value, as a socket does, and gives them in so many pieces. */
function read(buffers: ReceiveBuffers, value: number, sizeBytes = SIZE_BYTES, pieces = 1): Uint8Array[] {
  const buffer = buffers.take();
  buffer.fill(value, 0, sizeBytes);
  const lent = buffers.lend(buffer, sizeBytes);
  const length = Math.ceil(sizeBytes / pieces);
  return Array.from({ length: pieces }, (_, at) => lent.subarray(at * length, (at + 1) * length));
}

/** One read, and what its reader does with its pieces: each is given back after so many further reads, or never, in their order. */
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
  it('is used again once its bytes were given back', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const [first = Buffer.alloc(0)] = read(buffers, 1);
    expect(read(buffers, 2)[0]?.buffer).not.toBe(first.buffer);
    buffers.giveBack(first);
    buffers.giveBack(first);
    expect(read(buffers, 3)[0]?.buffer).toBe(first.buffer);
    expect(read(buffers, 4)[0]?.buffer).not.toBe(first.buffer);
  });

  it('is used again although the headers of the answer were read into it, too', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const [headers = Buffer.alloc(0), body = Buffer.alloc(0)] = read(buffers, 1, SIZE_BYTES, 2);
    buffers.giveBack(body);
    expect(read(buffers, 2)[0]?.buffer).toBe(headers.buffer);
  });

  it('that is hardly filled is used again at once: its bytes are copied', () => {
    const buffers = new ReceiveBuffers(SIZE_BYTES);
    const [small = Buffer.alloc(0)] = read(buffers, 1, 7);
    const next = buffers.take();
    expect(small.buffer).not.toBe(next.buffer);
    next.fill(2);
    expect([...small]).toEqual(Array.from({ length: 7 }, () => 1));
    expect(buffers.lend(next, 8).buffer).toBe(next.buffer);
  });

  it('never changes while its readers have it, whatever is given back', () => {
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
