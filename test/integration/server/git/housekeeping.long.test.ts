import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { makeCommits } from '../../../../src/server/demo/commits.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { packGrown } from '../../../../src/server/git/bare.ts';
import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { plan, write } from '../../../support/commits.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('the service packs a repository when it has grown, and leaves everything as it was', async () => {
  const git = new Git();
  const registry = await openRegistry(await temporaryFolder());
  // Git ends before the folder is removed.
  onTestFinished(() => git.stop());
  onTestFinished(() => registry.close());
  const { id } = await registry.create('Accounting');
  const gitDirectory = registry.gitDirectory(id);
  const ask = async (...args: string[]) => (await git.run(gitDirectory, args)).toString('utf8');
  for (let step = 0; step < 52; step += 1) {
    const from = step === 0 ? {} : { from: 'refs/heads/main^0' };
    const at = new Date(Date.UTC(2026, 0, 1, step));
    const changes = [write(`${step}.xlsx`, String(step))];
    await makeCommits(git, gitDirectory, [plan('main', changes, { at, ...from })]);
    await ask('repack', '--quiet');
  }
  const packs = async (): Promise<number> =>
    (await readdir(join(gitDirectory, 'objects/pack'))).filter((name) => name.endsWith('.pack')).length;
  const before = await ask('ls-tree', '-r', 'refs/heads/main');
  expect(await packs()).toBe(52);

  await Promise.all([packGrown(git, gitDirectory), packGrown(git, gitDirectory)]);
  expect(await packs()).toBe(1);
  expect(await ask('ls-tree', '-r', 'refs/heads/main')).toBe(before);
  expect(await ask('fsck', '--strict')).toBe('');
});
