import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';

import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { BULK_THREADS, doInThread, leastBusyThread } from '../../../../src/mirror/file-work/pool.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

let tree: string;
let started: Worker[];
const onWorker = (worker: Worker): void => void started.push(worker);

beforeEach(async () => {
  tree = await temporaryFolder();
  await writeFile(join(tree, 'plan.xlsx'), 'plan');
  started = [];
  process.on('worker', onWorker);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  process.off('worker', onWorker);
});

async function walked(): Promise<readonly string[]> {
  return (await doInThread('walk', tree))?.paths ?? [];
}

it('a thread with a cancelled task ends, as the program could not end otherwise', async () => {
  const control = new AbortController();
  const starting = once(process, 'worker') as Promise<[Worker]>;
  const walking = doInThread('walk', tree, control.signal);
  const [thread] = await starting;
  const ended = once(thread, 'exit');
  control.abort();
  await expect(walking).rejects.toBe(control.signal.reason);
  await ended;
  await expect(doInThread('walk', tree, control.signal)).rejects.toBe(control.signal.reason);
  expect(started).toHaveLength(1);
});

it('idle threads take the next task, or end after a while, and new ones start for later tasks', async () => {
  expect(await walked()).toEqual(['plan.xlsx']);
  vi.advanceTimersByTime(1000);
  expect(await walked()).toEqual(['plan.xlsx']);
  expect(started).toHaveLength(1);
  const [first] = started;
  if (first === undefined) throw new Error('there is no thread');
  const ended = once(first, 'exit');
  vi.advanceTimersByTime(60_000);
  // The first has not ended: no task waits for it.
  expect(await walked()).toEqual(['plan.xlsx']);
  expect(started).toHaveLength(2);
  await ended;
  expect(await walked()).toEqual(['plan.xlsx']);
  expect(started).toHaveLength(2);
});

it('a task goes to the thread with the fewest tasks', async () => {
  const tasks: Promise<unknown>[] = [];
  for (let load = BULK_THREADS; load > 0; load -= 1) {
    const thread = leastBusyThread();
    for (let count = 0; count < load; count += 1) tasks.push(thread.run('walk', tree));
    if (load === 1) expect(leastBusyThread()).toBe(thread);
  }
  await Promise.all(tasks);
});
