import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { type Archive, createArchiveLengths } from '../../../../src/server/http/archive-lengths.ts';
import { countBytes, partOf } from '../../../../src/server/http/conditions.ts';
import type { Bytes } from '../../../../src/server/http/library.ts';

const NEVER = new AbortController().signal;

async function* pieces(...sizes: readonly number[]): Bytes {
  for (const size of sizes) yield Buffer.alloc(size, size);
}

/** An archive that counts how often it is made. */
function archiveOf(
  etag: string,
  bytes: (signal: AbortSignal) => Bytes,
): { readonly archive: Archive; readonly made: () => number } {
  let made = 0;
  const open = (signal: AbortSignal): Bytes => {
    made += 1;
    return bytes(signal);
  };
  return { archive: { kind: 'archive', etag, open }, made: () => made };
}

async function* endless(signal: AbortSignal): Bytes {
  for (;;) {
    await new Promise((resolve) => void setImmediate(resolve));
    signal.throwIfAborted();
    yield Buffer.alloc(1);
  }
}

describe('the length of an archive', () => {
  it('is found by making it, once', async () => {
    const lengths = createArchiveLengths();
    const { archive, made } = archiveOf('"a"', () => pieces(3, 4));
    expect(await lengths.find(archive, NEVER)).toBe(7);
    expect(await lengths.find(archive, undefined)).toBe(7);
    expect(made()).toBe(1);
  });

  it('is known of one that somebody has read to its end, and not of one that was left', async () => {
    const lengths = createArchiveLengths();
    const read = archiveOf('"a"', () => pieces(3, 4));
    expect(await countBytes(lengths.watched(read.archive, NEVER))).toBe(7);
    expect([await lengths.find(read.archive, NEVER), read.made()]).toEqual([7, 1]);
    const left = archiveOf('"b"', () => pieces(5, 6));
    for await (const _piece of lengths.watched(left.archive, NEVER)) break;
    expect([await lengths.find(left.archive, NEVER), left.made()]).toEqual([11, 2]);
  });

  it('is unknown where to find out takes too long', async () => {
    const { archive } = archiveOf('"a"', endless);
    expect(await createArchiveLengths(1).find(archive, NEVER)).toBeNull();
  });

  it('is found once for all who ask at the same time', async () => {
    const lengths = createArchiveLengths();
    const { archive, made } = archiveOf('"a"', () => pieces(3, 4));
    const other = archiveOf('"b"', () => pieces(5));
    const asked = [archive, archive, other.archive, archive].map((one) => lengths.find(one, NEVER));
    expect(await Promise.all(asked)).toEqual([7, 7, 5, 7]);
    expect([made(), other.made()]).toEqual([1, 1]);
  });

  it('is still found for others when one of those who ask is gone, and left when all are', async () => {
    const lengths = createArchiveLengths();
    const held = Promise.withResolvers<void>();
    const signals: AbortSignal[] = [];
    const { archive, made } = archiveOf('"a"', async function* slow(signal) {
      signals.push(signal);
      await held.promise;
      signal.throwIfAborted();
      yield Buffer.alloc(4);
    });
    const [one, two] = [new AbortController(), new AbortController()];
    const asked = [one, two].map(({ signal }) => lengths.find(archive, signal));
    one.abort(new Error('gone'));
    await expect(asked[0]).rejects.toThrow('gone');
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    two.abort(new Error('gone too'));
    await expect(asked[1]).rejects.toThrow('gone too');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    const anew = lengths.find(archive, NEVER);
    held.resolve();
    expect([await anew, made()]).toEqual([4, 2]);
  });

  it('that took too long to find is not looked for again within an hour', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const lengths = createArchiveLengths(1);
    const { archive, made } = archiveOf('"a"', endless);
    const twice = (): Promise<(number | null)[]> =>
      Promise.all([lengths.find(archive, NEVER), lengths.find(archive, undefined)]);
    expect([await twice(), await twice(), made()]).toEqual([[null, null], [null, null], 1]);
    vi.advanceTimersByTime(3_600_000);
    expect([await twice(), made()]).toEqual([[null, null], 2]);
  });

  it('that took too long to find is known once somebody has read it to its end', async () => {
    const lengths = createArchiveLengths(1);
    expect(await lengths.find(archiveOf('"a"', endless).archive, NEVER)).toBeNull();
    const { archive } = archiveOf('"a"', () => pieces(3, 4));
    await countBytes(lengths.watched(archive, NEVER));
    expect(await lengths.find(archive, NEVER)).toBe(7);
  });

  it('is nothing for who is gone, and a failure is told', async () => {
    const gone = new AbortController();
    const found = createArchiveLengths().find(archiveOf('"a"', endless).archive, gone.signal);
    gone.abort(new Error('gone'));
    await expect(found).rejects.toThrow('gone');
    const { archive: broken } = archiveOf('"a"', async function* broken() {
      yield Buffer.alloc(1);
      throw new Error('damaged');
    });
    await expect(createArchiveLengths().find(broken, NEVER)).rejects.toThrow('damaged');
  });
});

describe('a part of bytes', () => {
  const partsOf = async (first: number, last: number): Promise<number[]> => {
    const parts: number[] = [];
    for await (const piece of partOf(pieces(2, 3, 4), { first, last })) parts.push(...piece);
    return parts;
  };

  it.each([
    [0, 8, [2, 2, 3, 3, 3, 4, 4, 4, 4]],
    [0, 0, [2]],
    [1, 2, [2, 3]],
    [2, 4, [3, 3, 3]],
    [8, 8, [4]],
  ])('from %i to %i', async (first, last, expected) => {
    expect(await partsOf(first, last)).toEqual(expected);
  });

  it('fails where the bytes end before it', async () => {
    await expect(partsOf(5, 9)).rejects.toThrow('there are 9 bytes');
  });
});
