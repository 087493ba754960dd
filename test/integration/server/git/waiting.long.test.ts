import { execFileSync } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import { makeCommits } from '../../../../src/server/demo/commits.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { plan, write } from '../../../support/commits.ts';
import { KEY, startGitService, TOKEN } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** More than any limit on how many git programs run at once. */
const REPOSITORIES = 20;

/** Puts another git before the real one: it reads a history only after a file has appeared. */
async function holdHistories(): Promise<{ readonly release: () => Promise<void> }> {
  const folder = await temporaryFolder();
  const real = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
  const gate = join(folder, 'gate');
  const wait = `case " $* " in *" log "*) while [ ! -e '${gate}' ]; do sleep 0.02; done;; esac`;
  await writeFile(join(folder, 'git'), `#!/bin/sh\n${wait}\nexec '${real}' "$@"\n`);
  await chmod(join(folder, 'git'), 0o755);
  vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
  return { release: () => writeFile(gate, '') };
}

it('a request for a file is answered while histories are being read', async () => {
  const registry = await openRegistry(await temporaryFolder());
  const { baseUrl } = await startGitService(registry);
  const git = new Git();
  onTestFinished(() => git.stop());
  for (let index = 0; index < REPOSITORIES; index += 1) {
    const { id } = await registry.create(`R${index}`);
    await makeCommits(git, registry.gitDirectory(id), [plan('main', [write('a.xlsx', 'abc')])]);
  }
  const histories = await holdHistories();
  const order: string[] = [];
  const list = (async () => {
    const answer = await fetch(`${baseUrl}/v1/workbooks`, { headers: { authorization: TOKEN } });
    order.push('list');
    return answer.json() as Promise<{ readonly count: number }>;
  })();
  const file = await fetch(`${baseUrl}/repos/R7/contents/a.xlsx`, { headers: { 'x-api-key': KEY } });
  expect(await file.text()).toBe('abc');
  order.push('file');
  await histories.release();
  expect((await list).count).toBe(REPOSITORIES);
  expect(order).toEqual(['file', 'list']);
});
