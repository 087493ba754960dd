import { describe, expect, it } from 'vitest';

import {
  createFold,
  type History,
  type Commit,
  createLogReader,
  type PathChange,
} from '../../../../src/server/git/history.ts';

const ZERO = '0'.repeat(40);
const BLOB = '1'.repeat(40);

function read(tokens: readonly string[]): { commits: Commit[]; changes: PathChange[] } {
  const commits: Commit[] = [];
  const changes: PathChange[] = [];
  const token = createLogReader(
    (commit) => commits.push(commit),
    (change) => changes.push(change),
  );
  for (const each of tokens) token(each);
  return { commits, changes };
}

function commit(id: string, parentId: string | null = null): Commit {
  return { id, parentId, author: 'A', committedAtSeconds: 1, message: `${id}\n` };
}

function change(id: string, letter: string, path: string, mode = '100644'): PathChange {
  return { commit: commit(id), path, letter, mode, blobId: BLOB };
}

function fold(changes: readonly PathChange[], base: History = new Map()): History {
  const folding = createFold();
  changes.forEach(folding.add);
  return folding.finish(base);
}

describe('reading the log of git', () => {
  it('reads commits and their changes, also of commits that change nothing', () => {
    const output = [
      ['c3', 'c2 x9', 'Änne', '300', 'merge\n'],
      [`\n:100644 100644 ${BLOB} ${BLOB} M`, 'a b.xlsx', `:000000 100755 ${ZERO} ${BLOB} A`, ':odd name'],
      ['c2', 'c1', 'B', '200', ''],
      ['c1', '', 'C', '100', 'first\n\nwith a body\n'],
      [`\n:100644 000000 ${BLOB} ${ZERO} D`, 'line\nfeed'],
    ];
    const { commits, changes } = read(output.flat());
    expect(commits).toEqual([
      { id: 'c3', parentId: 'c2', author: 'Änne', committedAtSeconds: 300, message: 'merge\n' },
      { id: 'c2', parentId: 'c1', author: 'B', committedAtSeconds: 200, message: '' },
      { id: 'c1', parentId: null, author: 'C', committedAtSeconds: 100, message: 'first\n\nwith a body\n' },
    ]);
    expect(changes.map(({ commit, path, letter, mode }) => [commit.id, path, letter, mode])).toEqual([
      ['c3', 'a b.xlsx', 'M', '100644'],
      ['c3', ':odd name', 'A', '100755'],
      ['c1', 'line\nfeed', 'D', '000000'],
    ]);
  });

  it('takes no message for a change, whatever it looks like', () => {
    const { commits, changes } = read(['c1', '', ':an author', '1', `\n:100644 100644 ${BLOB} ${BLOB} M`]);
    expect(commits).toHaveLength(1);
    expect(changes).toEqual([]);
  });

  it('cuts the name of an author, and passes over a path that was cut', () => {
    const commits: Commit[] = [];
    const paths: string[] = [];
    const token = createLogReader(
      (each) => commits.push(each),
      ({ path }) => paths.push(path),
    );
    const raw = (from: string): string => `${from}:000000 100644 ${ZERO} ${BLOB} A`;
    for (const each of ['c1', '', 'Ä'.repeat(100_000), '1']) token(each, each.length > 1000);
    token('cut', true);
    token(raw('\n'));
    token('a.xlsx', true);
    token(raw(''));
    token('b.xlsx', false);
    expect(commits.map(({ author, message }) => [author, message])).toEqual([['Ä'.repeat(512), 'cut']]);
    expect(paths).toEqual(['b.xlsx']);
  });
});

describe('the last change of every workbook', () => {
  it('takes the newest change of a path and leaves out what is gone', () => {
    const history = fold([
      change('c3', 'M', 'a.xlsx'),
      change('c3', 'D', 'b.xlsx', '000000'),
      change('c2', 'A', 'b.xlsx'),
      change('c1', 'A', 'a.xlsx'),
      change('c1', 'A', 'C.XLSM'),
    ]);
    expect([...history].map(([path, { commit, action }]) => [path, commit.id, action])).toEqual([
      ['a.xlsx', 'c3', 'modify'],
      ['C.XLSM', 'c1', 'add'],
    ]);
  });

  it('knows workbooks by their ending, and only regular files', () => {
    const names = ['a.xls', 'a.xlsb', 'a.xltx', 'a.xltm', 'a.ods', 'd/.xlsx', 'a.xlsx.txt', 'xlsx', 'a.csv'];
    expect([...fold(names.map((name) => change('c1', 'A', name))).keys()]).toEqual(names.slice(0, 6));
    expect(fold([change('c1', 'A', 'a.xlsx', '120000'), change('c1', 'A', 'b.xlsx', '160000')]).size).toBe(0);
  });

  it('goes on from the history before', () => {
    const base = fold([
      change('c1', 'A', 'a.xlsx'),
      change('c1', 'A', 'b.xlsx'),
      change('c1', 'A', 'c.xlsx'),
    ]);
    const history = fold([change('c2', 'M', 'b.xlsx'), change('c2', 'T', 'c.xlsx', '120000')], base);
    expect([...history].map(([path, { commit }]) => [path, commit.id])).toEqual([
      ['a.xlsx', 'c1'],
      ['b.xlsx', 'c2'],
    ]);
    expect(base.size).toBe(3);
  });
});
