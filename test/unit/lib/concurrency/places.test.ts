import { describe, expect, it } from 'vitest';

import { CrowdedError, Places } from '../../../../src/lib/concurrency/places.ts';

describe('places', () => {
  it('let so many in at once, and the others in their order, also after a failure', async () => {
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

  it('let work begin at once where one is free', async () => {
    let begun = 0;
    const count = (): Promise<void> => {
      begun += 1;
      return Promise.resolve();
    };
    const places = new Places(1);
    const work = [places.run(count), places.run(count)];
    expect(begun).toBe(1);
    await Promise.all(work);
  });

  it('with seats refuse who finds none, and nobody else', async () => {
    const gate = Promise.withResolvers<string>();
    const places = new Places(1, 2);
    const work = [1, 2, 3].map(() => places.run(() => gate.promise));
    await expect(places.run(() => gate.promise)).rejects.toBeInstanceOf(CrowdedError);
    gate.resolve('done');
    expect(await Promise.all(work)).toEqual(['done', 'done', 'done']);
    expect(await places.run(() => Promise.resolve('again'))).toBe('again');
    await expect(places.run(() => Promise.reject(new Error('x')))).rejects.toThrow('x');
    expect(await places.run(() => Promise.resolve('again'))).toBe('again');
  });

  it('are not kept for who no longer waits', async () => {
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
