import { setImmediate as turn } from 'node:timers/promises';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { forEachConcurrently, joinSignals, Places } from '../../../../src/lib/concurrency/concurrency.ts';

describe('work on many items', () => {
  it('is done once for each, begun in order, within the limit', async () => {
    const property = fc.asyncProperty(
      fc.array(fc.nat()),
      fc.integer({ min: 1, max: 8 }),
      async (items, limit) => {
        const [begun, done]: [number[], number[]] = [[], []];
        let running = 0;
        let most = 0;
        await forEachConcurrently(items, limit, async (item) => {
          begun.push(item);
          running += 1;
          most = Math.max(most, running);
          await Promise.resolve();
          running -= 1;
          done.push(item);
        });
        expect(begun).toEqual(items);
        expect(done.sort((a, b) => a - b)).toEqual(items.sort((a, b) => a - b));
        expect(most).toBe(Math.min(limit, items.length));
      },
    );
    await fc.assert(property);
  });

  it('stops at the first failure, lets running work end, and throws the failure', async () => {
    const ended: number[] = [];
    const second = Promise.withResolvers<void>();
    const work = forEachConcurrently([1, 2, 3, 4], 2, async (item) => {
      if (item === 1) throw new Error('first');
      await second.promise;
      ended.push(item);
      throw new Error('second');
    });
    second.resolve();
    await expect(work).rejects.toThrow('first');
    expect(ended).toEqual([2]);
  });

  it('takes its items one by one from any iterable', async () => {
    let given = 0;
    const items = function* (): Generator<number> {
      for (;;) yield (given += 1);
    };
    const work = forEachConcurrently(items(), 3, async (item) => {
      await Promise.resolve();
      if (item === 10) throw new Error('enough');
    });
    await expect(work).rejects.toThrow('enough');
    expect(given).toBeLessThan(20);
  });
});

describe('joined signals', () => {
  it.each([0, 1])('fire with either of the two, with its reason', (which) => {
    const controls = [new AbortController(), new AbortController()] as const;
    const { signal } = joinSignals(controls[0].signal, controls[1].signal);
    expect(signal.aborted).toBe(false);
    controls[which]?.abort('stopped');
    controls[1 - which]?.abort('later');
    expect([signal.aborted, signal.reason]).toEqual([true, 'stopped']);
  });

  it('have fired if either of the two has', () => {
    const { signal } = joinSignals(new AbortController().signal, AbortSignal.abort('before'));
    expect(signal.reason).toBe('before');
  });

  it('no longer fire after their disposal', () => {
    const control = new AbortController();
    const { signal, leave } = joinSignals(control.signal, new AbortController().signal);
    leave();
    control.abort();
    expect(signal.aborted).toBe(false);
  });
});

describe('places', () => {
  it('admit a fixed number at once, and the others in order, even after a failure', async () => {
    const places = new Places(2);
    const order: number[] = [];
    let inside = 0;
    let most = 0;
    const work = [0, 1, 2, 3, 4].map((number) =>
      places
        .run(async () => {
          inside += 1;
          most = Math.max(most, inside);
          order.push(number);
          await turn();
          inside -= 1;
          if (number === 1) throw new Error('failed');
          return number;
        })
        .catch(() => -1),
    );
    expect(await Promise.all(work)).toEqual([0, -1, 2, 3, 4]);
    expect(order).toEqual([0, 1, 2, 3, 4]);
    expect(most).toBe(2);
  });

  it('let work begin after the caller has returned', async () => {
    let hasGoneOn = false;
    const work = new Places(1).run(() => Promise.resolve(hasGoneOn));
    hasGoneOn = true;
    expect(await work).toBe(true);
  });

  it('are not kept for a caller that no longer waits', async () => {
    const places = new Places(1);
    const leave = await places.take();
    const gone = new AbortController();
    const waiting = places.take(gone.signal);
    const next = places.take();
    gone.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    leave();
    (await next)();
    await expect(places.take(gone.signal)).rejects.toThrow('gone');
    expect(await places.run(() => Promise.resolve('free'))).toBe('free');
  });
});
