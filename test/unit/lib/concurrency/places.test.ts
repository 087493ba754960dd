import { describe, expect, it } from 'vitest';

import { Places } from '../../../../src/lib/concurrency/places.ts';

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
          await new Promise((resolve) => {
            setImmediate(resolve);
          });
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
