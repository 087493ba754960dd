import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { contentAt } from '../../../../src/server/git/contents.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { readHeads } from '../../../../src/server/git/refs.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it.each(['zeta\u3000', 'zeta\u00A0', 'zeta\uFEFF'])('a branch %j is not the same as zeta', async (name) => {
  const folder = await temporaryFolder();
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', folder, '-c', 'user.name=n', '-c', 'user.email=e', ...args], {
      encoding: 'utf8',
    }).trim();
  git('init', '--quiet', '--bare');
  const tree = git('hash-object', '-t', 'tree', '-w', '/dev/null');
  const [first, second] = ['one', 'two'].map((message) => git('commit-tree', '-m', message, tree));
  if (first === undefined || second === undefined) throw new Error('no commits');
  git('update-ref', 'refs/heads/zeta', first);
  git('update-ref', `refs/heads/${name}`, second);
  expect(Object.fromEntries(await readHeads(new Git(), folder))).toEqual({ zeta: first, [name]: second });
});

it('branches are not read without a damaged one, which would seem deleted', async () => {
  const folder = await temporaryFolder();
  const git = new Git();
  await git.run(folder, ['init', '--quiet', '--bare']);
  await writeFile(join(folder, 'refs', 'heads', 'dev'), '');
  await expect(readHeads(git, folder)).rejects.toThrow(/ignoring broken ref/);
});

it('contents without a branch do not seem gone between the renaming of the default branch and that of HEAD', async () => {
  const folder = await temporaryFolder();
  const git = new Git();
  await git.run(folder, ['init', '--quiet', '--bare', '--initial-branch=main']);
  const tree = await git.text(folder, ['hash-object', '-t', 'tree', '-w', '/dev/null']);
  const who = ['-c', 'user.name=n', '-c', 'user.email=e'];
  const commit = await git.text(folder, [...who, 'commit-tree', '-m', 'm', tree]);
  await git.run(folder, ['update-ref', 'refs/heads/trunk', commit]);
  await expect(contentAt(git, folder, null, '')).rejects.toMatchObject({ status: 503 });
  await expect(contentAt(git, folder, 'main', '')).rejects.toMatchObject({ status: 404 });
});
