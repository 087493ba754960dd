import { describe, expect, it, vi } from 'vitest';

import { Places } from '../../../../src/lib/concurrency/places.ts';
import { isDamagedExit } from '../../../../src/server/git/bare.ts';
import { createDoubts } from '../../../../src/server/external/fetches.ts';
import { runYielding } from '../../../../src/server/git/fetch-queue.ts';
import { orderOfArrival } from '../../../../src/server/git/download.ts';

describe('an end of git fsck', () => {
  it.each<[number | null, string, boolean]>([
    [0, '', false],
    [1, 'error in commit 1234: badTimezone', false],
    [2, 'missing blob 1234', true],
    [3, 'error: 1234: object corrupt or missing', true],
    [4, 'error: packfile is corrupt', true],
    [8, '', true],
    [128, "fatal: not a git repository: '/x'", true],
    [128, 'fatal: Out of memory, malloc failed', false],
    [128, 'fatal: unable to create thread: Resource temporarily unavailable', false],
    [null, '', false],
  ])('%s (%s) tells of damage: %s', (code, complaint, isDamaged) => {
    expect(isDamagedExit(code, complaint)).toBe(isDamaged);
  });
});

describe('what is fetched into a quarantine', () => {
  it('arrives with the indices of packs last, and without what is not finished', () => {
    const id = 'a'.repeat(38);
    expect(
      orderOfArrival([
        'pack/pack-12.idx',
        'pack/pack-12.keep',
        'pack/tmp_pack_abc',
        'pack/pack-12.pack',
        `aa/${id}`,
        'aa/tmp_obj_abc',
        'pack/pack-12.rev',
        'info/alternates',
      ]),
    ).toEqual(['pack/pack-12.pack', `aa/${id}`, 'pack/pack-12.rev', 'pack/pack-12.idx']);
  });
});

describe('a doubt', () => {
  it('is looked into once, and again a day later', () => {
    let nowMs = 0;
    const doubts = createDoubts(() => nowMs);
    expect(doubts.take('a')).toBe(false);
    expect(doubts.add('a')).toBe(true);
    expect(doubts.take('a')).toBe(true);
    expect(doubts.take('a')).toBe(false);
    nowMs = 86_399_999;
    expect(doubts.add('a')).toBe(false);
    expect(doubts.add('b')).toBe(true);
    nowMs = 86_400_000;
    expect(doubts.add('a')).toBe(true);
    expect(doubts.take('a')).toBe(true);
  });
});

describe('slow work', () => {
  it('gives its place to the next one, and its result in the end', async () => {
    vi.useFakeTimers();
    const slow = Promise.withResolvers<string>();
    const places = new Places(1);
    const first = runYielding(places, 1000, () => slow.promise);
    const second = runYielding(places, 1000, () => Promise.reject(new Error('second')));
    const ending = expect(second).rejects.toThrow('second');
    await vi.advanceTimersByTimeAsync(1000);
    await ending;
    slow.resolve('first');
    expect(await first).toBe('first');
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});
