import { execFileSync } from 'node:child_process';

import { expect, it } from 'vitest';

import { openRegistry } from '../../../../src/server/git/repositories.ts';
import { startGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
const PATHS = ['a.xlsx', 'b.xlsx', 'd/c.xlsm', 'd/Ä e.ods', '*.xlsx', ':f.xls', 'notes.txt'];
const COMMITS_EACH_ROUND = 40;
const BRANCHES = 12;

type Tree = ReadonlyMap<string, { readonly mode: string; readonly content: string }>;

/** The same numbers each time: at least 0 and below `limit`. */
function seededNumbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/**
 * Makes commits one of which may have up to three parents. Each path is as in some parent (so that merges take one side, or undo
 * it), under a name that another path had, of new content, of another mode, or gone. Dates are in no order.
 */
function createWriter(seed: number) {
  const number = seededNumbers(seed);
  const trees: Tree[] = [];

  function treeOf(parents: readonly number[]): Tree {
    const tree = new Map<string, { mode: string; content: string }>();
    const isMerge = parents.length > 1;
    for (const path of PATHS) {
      const from = trees[parents[number(parents.length)] ?? -1];
      const same = from?.get(path);
      const chance = number(isMerge ? 24 : 8);
      const mode = chance === 0 ? (['100755', '120000', '100644'][number(3)] ?? '') : '100644';
      if (chance <= 1) tree.set(path, { mode, content: String(number(4)) });
      else if (chance === 2) continue;
      else if (chance === 3)
        tree.set(path, from?.get(PATHS[number(PATHS.length)] ?? '') ?? { mode, content: 'x' });
      else if (same !== undefined) tree.set(path, same);
    }
    return tree;
  }

  /** @returns the input of `git fast-import` */
  return (): string => {
    const lines: string[] = [];
    for (let made = 0; made < COMMITS_EACH_ROUND; made += 1) {
      const index = trees.length;
      const recent = Math.min(index, 8);
      const count = index < 2 ? index : ([0, 1, 1, 1, 2, 2, 2, 3][number(8)] ?? 1);
      const parents = [...new Set(Array.from({ length: count }, () => index - 1 - number(recent)))];
      const tree = treeOf(parents);
      trees.push(tree);
      lines.push('commit refs/heads/work', `mark :${index + 1}`);
      lines.push(`committer A <a@example.com> ${1_700_000_000 + number(1000)} +0000`, 'data 1', 'm');
      if (parents.length === 0) lines.push('deleteall');
      for (const [order, parent] of parents.entries())
        lines.push(`${order === 0 ? 'from' : 'merge'} :${parent + 1}`);
      lines.push('deleteall');
      for (const [path, { mode, content }] of tree) {
        lines.push(`M ${mode} inline "${path}"`, `data ${content.length}`, content);
      }
      if (parents.length === 0)
        lines.splice(lines.lastIndexOf('commit refs/heads/work'), 0, 'reset refs/heads/work');
    }
    for (let branch = 0; branch < BRANCHES; branch += 1) {
      lines.push(`reset refs/heads/b${branch}`, `from :${trees.length - number(Math.min(trees.length, 30))}`);
    }
    return `${lines.join('\n')}\n\ndone\n`;
  };
}

/** A bare repository as Git itself sees it. */
function gitAt(gitDirectory: string) {
  const run = (args: readonly string[], input = ''): string =>
    execFileSync('git', ['--literal-pathspecs', `--git-dir=${gitDirectory}`, ...args], {
      input,
      encoding: 'utf8',
    });
  const versionAt = (revision: string, path: string): string =>
    run(['log', '-1', '--format=%H', revision, '--', path]).trim();
  const holds = (revision: string, path: string): boolean =>
    run(['ls-tree', '--full-tree', revision, path]).startsWith('100');
  return {
    run,
    /** The expected row for a path of a branch. */
    expected(branch: string, path: string): object {
      const id = versionAt(branch, path);
      const [, ...parents] = run(['rev-list', '--parents', '-1', id]).trim().split(' ');
      const parent = parents.find((each) => holds(each, path));
      const before = parent === undefined ? EMPTY_TREE : versionAt(parent, path);
      return { branch, path, id, parent: before, action: parent === undefined ? 'add' : 'modify' };
    },
    workbooks: (branch: string): string[] =>
      run(['ls-tree', '-r', '-z', '--full-tree', branch])
        .split('\0')
        .filter((line) => line.startsWith('100') && !line.endsWith('.txt'))
        .map((line) => line.slice(line.indexOf('\t') + 1)),
  };
}

async function startService() {
  const registry = await openRegistry(await temporaryFolder());
  const { rows: listed } = await startGitService(registry);
  const { id } = await registry.create('R');
  return {
    gitDirectory: registry.gitDirectory(id),
    rows: async () =>
      (await listed()).map(({ name, version: { branch, id: versionId, parent, action } }) => ({
        branch,
        path: name.slice(1),
        id: versionId,
        parent: parent?.id,
        action,
      })),
  };
}

it.each([1, 2, 3])(
  'names the version that `git log -1` gives, and the one before it, whatever was merged (%i)',
  async (seed) => {
    const { gitDirectory, rows } = await startService();
    const git = gitAt(gitDirectory);
    const write = createWriter(seed);
    const marks = `${gitDirectory}/marks`;
    // The second round goes on from branches whose histories are known, or leads them elsewhere.
    for (const round of [1, 2]) {
      const importing = ['fast-import', '--quiet', '--force', '--done', `--export-marks=${marks}`];
      git.run(round === 1 ? importing : [...importing, `--import-marks=${marks}`], write());
      const branches = [...Array.from({ length: BRANCHES }, (_, index) => `b${index}`), 'work'];
      const expected = branches.flatMap((branch) =>
        git.workbooks(branch).map((path) => git.expected(branch, path)),
      );
      const key = (row: object): string => JSON.stringify(row);
      expect((await rows()).map(key).sort()).toEqual(expected.map(key).sort());
    }
  },
);

it('lists the workbooks of a branch that begins at, or goes back to, a commit before a known one', async () => {
  const { gitDirectory, rows } = await startService();
  const git = gitAt(gitDirectory);
  const commit = 'commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nm\n';
  const files = ['0.xlsx', '1.xlsx'].map((path) => `M 100644 inline ${path}\ndata 1\nx\n`);
  git.run(['fast-import', '--quiet', '--done'], `${files.map((file) => commit + file).join('')}done\n`);
  const listed = async (): Promise<string[]> => (await rows()).map(({ branch, path }) => `${branch} ${path}`);
  expect(await listed()).toEqual(['main 0.xlsx', 'main 1.xlsx']);
  git.run(['branch', 'release', 'main~1']);
  expect(await listed()).toEqual(['main 0.xlsx', 'release 0.xlsx', 'main 1.xlsx']);
  git.run(['branch', '--delete', '--force', 'release']);
  expect(await listed()).toEqual(['main 0.xlsx', 'main 1.xlsx']);
  git.run(['update-ref', 'refs/heads/main', 'main~1']);
  expect(await listed()).toEqual(['main 0.xlsx']);
});
