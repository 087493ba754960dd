import { existsSync } from 'node:fs';

import { expect, it } from 'vitest';

import { readHistory } from '../../../../../src/mirror/store/history/history.ts';
import { pruneHistory } from '../../../../../src/mirror/store/publish/sweep.ts';
import { startPair } from '../../../../support/mirror-harness.ts';

it('keeps the later states of a target if an older one cannot be removed, and prunes the other targets', async () => {
  const { service, mirror } = await startPair({}, { HISTORY_REPLACED: '50' });
  const repositories = ['A', 'B'].map((name) => service.addRepository(name, { 'a.xlsx': '0' }));
  await mirror.pass();
  for (const text of ['1', '2', '3']) {
    for (const repository of repositories) service.write(repository, 'main', 'a.xlsx', text);
    await mirror.pass();
  }
  const { store } = mirror.context;
  const states = await readHistory(store.layout);
  let isFirst = true;
  const failing: typeof store.serially = (work) => {
    if (!isFirst) return store.serially(work);
    isFirst = false;
    return Promise.reject(Object.assign(new Error('busy'), { code: 'EBUSY' }));
  };
  const retention = { retired: { kind: 'off' }, replaced: { kind: 'off' } } as const;
  await expect(pruneHistory({ ...store, serially: failing, retention }, Date.now())).rejects.toMatchObject({
    code: 'disk.failed',
  });
  // The oldest state may be of either target.
  const left = (name: string): number =>
    states.filter(({ path, tree }) => path === name && existsSync(tree)).length;
  expect(new Set([left('A/main'), left('B/main')])).toEqual(new Set([0, 3]));
});
