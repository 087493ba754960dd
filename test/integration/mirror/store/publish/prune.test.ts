import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { bindNativeCalls } from '../../../../../src/lib/native/file-calls.ts';
import { readHistory } from '../../../../../src/mirror/store/history/history.ts';
import { createGate } from '../../../../../src/mirror/store/leases.ts';
import { pruneHistory } from '../../../../../src/mirror/store/publish/sweep.ts';
import { type MirrorHarness, startPair } from '../../../../support/mirror-harness.ts';

/** A mirror with three earlier states of each of two targets. */
async function withHistory(): Promise<MirrorHarness> {
  const { service, mirror } = await startPair({}, { HISTORY_REPLACED: '50' });
  const repositories = ['A', 'B'].map((name) => service.addRepository(name, { 'a.xlsx': '0' }));
  await mirror.pass();
  for (const text of ['1', '2', '3']) {
    for (const repository of repositories) service.write(repository, 'main', 'a.xlsx', text);
    await mirror.pass();
  }
  return mirror;
}

const NOTHING_KEPT = { retired: { kind: 'off' }, replaced: { kind: 'off' } } as const;

describe('pruning', () => {
  it('keeps the later states of a target if an older one cannot be removed, and prunes the other targets', async () => {
    const { store } = (await withHistory()).context;
    const states = await readHistory(store.layout);
    let isFirst = true;
    const serially: typeof store.serially = (work) => {
      if (!isFirst) return store.serially(work);
      isFirst = false;
      return Promise.reject(Object.assign(new Error('busy'), { code: 'EBUSY', syscall: 'rm' }));
    };
    const pruned = pruneHistory({ ...store, serially, retention: NOTHING_KEPT }, Date.now());
    await expect(pruned).rejects.toMatchObject({ code: 'disk.failed' });
    // The oldest state may be of either target.
    const left = (name: string): number =>
      states.filter(({ path, tree }) => path === name && existsSync(tree)).length;
    expect(new Set([left('A/main'), left('B/main')])).toEqual(new Set([0, 3]));
  });

  it.each(['another repository', 'the same one again'])(
    'keeps what a state at a former name needs, although that name now belongs to %s',
    async (owner) => {
      const { service, mirror } = await startPair({}, { HISTORY_REPLACED: 'forever' });
      const repository = service.addRepository('Old', { 'a.xlsx': '1', 'b.xlsx': '1' });
      await mirror.pass();
      const publish = async (path: string): Promise<void> => {
        service.write(repository, 'main', path, `2 of ${path}`);
        await mirror.pass();
      };
      await publish('a.xlsx');
      service.renameRepository(repository, 'New');
      if (owner === 'another repository') service.addRepository('Old', { 'c.xlsx': '1' });
      await mirror.pass();
      await publish('b.xlsx');
      if (owner !== 'another repository') service.renameRepository(repository, 'Old');
      await mirror.pass();
      const { store } = mirror.context;
      const paths = async () => (await readHistory(store.layout)).map(({ path }) => path);
      expect(await paths()).toEqual(['New/main', 'Old/main']);
      await pruneHistory({ ...store, retention: NOTHING_KEPT }, Date.now(), undefined, 'New/main');
      expect(await paths()).toEqual(['New/main', 'Old/main']);
    },
  );

  it('waits only once for the lock on publishing', async () => {
    const { store } = (await withHistory()).context;
    const native = bindNativeCalls();
    const blocker = await open(store.layout.gate, 'r+');
    onTestFinished(() => blocker.close());
    expect(native.tryLock(blocker.fd)).toBe(true);
    let tries = 0;
    const own = createGate(store.layout, native, Date.now, 20);
    const gate: typeof own = {
      pass: (step, signal) => {
        tries += 1;
        return own.pass(step, signal);
      },
    };
    const prune = (): ReturnType<typeof pruneHistory> =>
      pruneHistory({ ...store, gate, retention: NOTHING_KEPT }, Date.now());
    await expect(prune()).rejects.toMatchObject({ code: 'disk.failed' });
    expect(tries).toBe(1);
    native.unlock(blocker.fd);
    expect(await prune()).toHaveLength(6);
  });
});
