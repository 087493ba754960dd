import { describe, expect, it, vi } from 'vitest';

import { shareWork, waitAtMost } from '../../../../src/lib/concurrency/shared-work.ts';

/** Work that a test ends, and a clock that a test moves. */
function workshop() {
  const clock = { nowMs: 5000 };
  const rounds: PromiseWithResolvers<number>[] = [];
  vi.spyOn(performance, 'now').mockImplementation(() => clock.nowMs);
  const ask = shareWork(() => {
    const round = Promise.withResolvers<number>();
    rounds.push(round);
    return round.promise;
  }, 1000);
  return { clock, rounds, ask };
}

describe('work that is shared', () => {
  it('is done once for all callers together and soon after, and again if it is too old', async () => {
    const { rounds, ask, clock } = workshop();
    const together = [ask(), ask()];
    rounds[0]?.resolve(1);
    expect(await Promise.all(together)).toEqual([1, 1]);
    clock.nowMs += 999;
    expect(await ask()).toBe(1);
    clock.nowMs += 1;
    const later = ask();
    rounds[1]?.resolve(2);
    expect(await later).toBe(2);
  });

  it('never runs twice at once: a late caller during a long run gets the next one', async () => {
    const { rounds, ask, clock } = workshop();
    const first = ask();
    clock.nowMs += 5000;
    const late = [ask(), ask(), ask()];
    expect(rounds).toHaveLength(1);
    rounds[0]?.resolve(1);
    expect(await first).toBe(1);
    expect(rounds).toHaveLength(2);
    rounds[1]?.resolve(2);
    expect(await Promise.all(late)).toEqual([2, 2, 2]);
    expect(rounds).toHaveLength(2);
  });

  it('that fails rejects for all its callers, and is done again later', async () => {
    const { rounds, ask, clock } = workshop();
    const both = [ask(), ask()];
    clock.nowMs += 2000;
    const late = ask();
    rounds[0]?.reject(new Error('disk'));
    expect(await Promise.allSettled(both)).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }]);
    rounds[1]?.resolve(2);
    expect(await late).toBe(2);
  });

  it('without an age never begins before the request that gets its outcome, and runs one at a time', async () => {
    const ends: Array<(fails: boolean) => void> = [];
    let begun = 0;
    const shared = shareWork(() => {
      begun += 1;
      const number = begun;
      return new Promise<number>((resolve, reject) => {
        ends.push((fails) => (fails ? reject(new Error(String(number))) : resolve(number)));
      });
    });
    const first = shared();
    const second = shared();
    const third = shared();
    expect(begun).toBe(1);
    ends[0]?.(false);
    expect(await first).toBe(1);
    await expect.poll(() => ends.length).toBe(2);
    const fourth = shared();
    ends[1]?.(true);
    await expect(second).rejects.toThrow('2');
    await expect(third).rejects.toThrow('2');
    await expect.poll(() => ends.length).toBe(3);
    ends[2]?.(false);
    expect(await fourth).toBe(3);
    expect(begun).toBe(3);
  });
});

it('waiting gives a value that comes in time, otherwise null', async () => {
  expect(await waitAtMost(Promise.resolve('there'), 60_000)).toBe('there');
  expect(await waitAtMost(new Promise(() => {}), 1)).toBeNull();
  await expect(waitAtMost(Promise.reject(new Error('no')), 60_000)).rejects.toThrow('no');
});
