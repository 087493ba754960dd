import { describe, expect, it } from 'vitest';

import { createProofs, createSampledSet } from '../../../../src/server/replica/proofs.ts';

const SHA = 'a'.repeat(64);

/** Work that is ended from outside, or by its signal. */
function makeWork() {
  const begun: AbortSignal[] = [];
  const ends: Array<() => void> = [];
  return {
    begun,
    ends,
    begin: (signal: AbortSignal): Promise<void> => {
      begun.push(signal);
      return new Promise((resolve, reject) => {
        ends.push(resolve);
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    },
  };
}

describe('proofs', () => {
  it('are known of one state of a file and its digest only', () => {
    const proofs = createProofs();
    proofs.remember('1 2', SHA);
    expect(proofs.isKnown('1 2', SHA)).toBe(true);
    expect(proofs.isKnown('1 3', SHA)).toBe(false);
    expect(proofs.isKnown('1 2', 'b'.repeat(64))).toBe(false);
  });

  it('are run once for all who wait, as long as one of them does', async () => {
    const proofs = createProofs();
    const { begin, begun, ends } = makeWork();
    const first = new AbortController();
    const waits = [
      proofs.share('1', SHA, first.signal, begin),
      proofs.share('1', SHA, undefined, begin),
      proofs.share('2', SHA, undefined, begin),
    ];
    first.abort(new Error('gone'));
    await expect(waits[0]).rejects.toThrow('gone');
    expect(begun.map(({ aborted }) => aborted)).toEqual([false, false]);
    for (const end of ends) end();
    await Promise.all(waits.slice(1));
    const again = proofs.share('1', SHA, undefined, begin);
    expect(begun).toHaveLength(3);
    ends[2]?.();
    await again;
  });

  it('are given up when nobody waits, and begun anew for whoever comes then', async () => {
    const proofs = createProofs();
    const { begin, begun, ends } = makeWork();
    const gone = new AbortController();
    const left = proofs.share('1', SHA, gone.signal, begin);
    gone.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    expect(begun.map(({ aborted }) => aborted)).toEqual([true]);
    const wait = proofs.share('1', SHA, undefined, begin);
    expect(begun).toHaveLength(2);
    ends[1]?.();
    await wait;
    await expect(proofs.share('1', SHA, gone.signal, begin)).rejects.toThrow('gone');
    expect(begun).toHaveLength(2);
  });

  it('fail for all who wait', async () => {
    const proofs = createProofs();
    const begin = (): Promise<void> => Promise.reject(new Error('other bytes'));
    const waits = [1, 2].map(() => proofs.share('1', SHA, undefined, begin));
    for (const wait of waits) await expect(wait).rejects.toThrow('other bytes');
  });
});

describe('a sampled set', () => {
  it('holds no more than it may, and much of what is asked for in turn', () => {
    const set = createSampledSet(100);
    const names = Array.from({ length: 110 }, (_, index) => String(index));
    let found = 0;
    for (let round = 0; round < 20; round += 1) {
      for (const name of names) {
        if (set.has(name)) found += 1;
        else set.add(name);
        set.add(name);
        expect(set.has(name)).toBe(true);
      }
    }
    expect(set.size).toBe(100);
    expect(found).toBeGreaterThan(1000);
  });
});
