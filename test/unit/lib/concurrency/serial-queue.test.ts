import { expect, it } from 'vitest';

import { createSerialQueue } from '../../../../src/lib/concurrency/serial-queue.ts';

it('work is done one piece after the other, whatever became of those before', async () => {
  const queue = createSerialQueue();
  const first = Promise.withResolvers<number>();
  const begun: number[] = [];
  const results = [
    queue.run(() => {
      begun.push(1);
      return first.promise;
    }),
    queue.run(async () => {
      begun.push(2);
      return Promise.resolve(2);
    }),
  ];
  const settled = Promise.allSettled(results);
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  expect(begun).toEqual([1]);
  const broken = new Error('broken');
  first.reject(broken);
  await queue.done();
  expect(begun).toEqual([1, 2]);
  expect(await settled).toEqual([
    { status: 'rejected', reason: broken },
    { status: 'fulfilled', value: 2 },
  ]);
});
