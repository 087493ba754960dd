import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { compareRows, mergeRows } from '../../../../src/server/git/rows.ts';
import { pendingChecks, putBack, takeBatch } from '../../../../src/server/git/pending-checks.ts';
import { isSettled, type Stamp } from '../../../../src/server/git/ref-files.ts';
import type { WorkbookRow } from '../../../../src/server/http/library.ts';

function row(
  integration: string,
  path: string,
  more: { branch?: string; at?: number; contentKey?: string } = {},
): WorkbookRow {
  const { branch = 'main', at = 0, contentKey } = more;
  const createdAt = new Date(at * 1000).toISOString();
  const version = { id: 'c', author: 'A', action: 'add', createdAt, message: 'm', parentId: null };
  return {
    id: `${integration}/${path}`,
    integration,
    branch,
    path,
    version,
    ...(contentKey === undefined ? {} : { contentKey }),
  };
}

describe('the rows of all repositories', () => {
  it('are sorted as if all of them were sorted at once, whatever the names', () => {
    const name = fc
      .array(fc.constantFrom('a', 'b', 'a!', 'ä', '𐀀'), { minLength: 1, maxLength: 3 })
      .map((parts) => parts.join('/'));
    const repository = fc.record({
      integration: name,
      files: fc.uniqueArray(fc.tuple(name, fc.constantFrom('main', 'topic')), {
        selector: ([path, branch]) => `${path} ${branch}`,
      }),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(repository, { selector: ({ integration }) => integration }),
        (repositories) => {
          const pieces = repositories.map(({ integration, files }) => ({
            prefix: `${integration}/`,
            rows: files.map(([path, branch]) => row(integration, path, { branch })).sort(compareRows),
          }));
          const merged = mergeRows(pieces);
          const all = pieces.flatMap(({ rows }) => rows);
          expect(new Set(merged)).toEqual(new Set(all));
          expect(merged.map(({ id, branch }) => [id, branch])).toEqual(
            all.sort(compareRows).map(({ id, branch }) => [id, branch]),
          );
        },
      ),
    );
  });
});

describe('the files of references', () => {
  const MS = 1_000_000n;
  const stamp = (modifiedNs: bigint, changedNs: bigint): Stamp => ({
    path: 'HEAD',
    state: { inode: 1n, sizeBytes: 1n, modifiedNs, changedNs },
  });

  it.each([
    ['old', 100_000n * MS + 1n, 100_000n * MS + 1n, 100_051n * MS, true],
    ['just changed', 100_000n * MS + 1n, 100_000n * MS + 1n, 100_050n * MS, false],
    ['just moved here', 1n, 100_000n * MS + 1n, 100_050n * MS, false],
    ['written with another time', 100_000n * MS + 1n, 1n, 100_050n * MS, false],
    ['of the future', 200_000n * MS + 1n, 1n, 100_050n * MS, false],
    ['on a coarse file system, recent', 100_000n * MS, 100_000n * MS, 102_000n * MS, false],
    ['on a coarse file system, old', 100_000n * MS, 100_000n * MS, 102_001n * MS, true],
  ])('%s', (_, modifiedNs, changedNs, readAtNs, settled) => {
    expect(isSettled(stamp(modifiedNs, changedNs), readAtNs)).toBe(settled);
  });

  it('that are not there will have a time of their own', () => {
    expect(isSettled({ path: 'packed-refs', state: null }, 0n)).toBe(true);
  });
});

describe('what is to be checked', () => {
  const ids = new Map([
    ['A', 'id-a'],
    ['B', 'id-b'],
  ]);

  it('is each unknown content once, the newest first, with others of its repository', () => {
    const rows = [
      row('A', 'old.xlsx', { at: 1, contentKey: '11 ooxml' }),
      row('A', 'new.xlsx', { at: 5, contentKey: '22 ooxml' }),
      row('A', 'same.xlsx', { at: 2, contentKey: '22 ooxml' }),
      row('A', 'known.xlsx', { at: 9, contentKey: '33 ooxml' }),
      row('B', 'newest.xlsx', { at: 7, contentKey: '44 ooxml' }),
      row('B', 'other.xlsx', { at: 3, contentKey: '44 xls' }),
      row('C', 'gone.xlsx', { at: 8, contentKey: '55 ooxml' }),
      row('B', 'nobody knows.xlsx'),
    ];
    const pending = pendingChecks(rows, ids, (key) => key === '33 ooxml');
    const taken: string[][] = [];
    for (let batch = takeBatch(pending, 1); batch !== null; batch = takeBatch(pending, 1)) {
      taken.push([
        batch.repositoryId,
        ...batch.batch.map(({ blobId, row: { path } }) => `${blobId} ${path}`),
      ]);
    }
    expect(taken).toEqual([
      ['id-b', '44 newest.xlsx'],
      ['id-a', '22 new.xlsx'],
      ['id-b', '44 other.xlsx'],
      ['id-a', '11 old.xlsx'],
    ]);
    const again = pendingChecks(rows, ids, () => false);
    expect(takeBatch(again, 2)?.batch.map(({ row: { path } }) => path)).toEqual(['known.xlsx', 'new.xlsx']);
  });

  it('is, of repositories that have held up others, what comes last, however new it is', () => {
    const rows = [
      row('A', 'a.xlsx', { at: 9, contentKey: '11 ooxml' }),
      row('A', 'b.xlsx', { at: 8, contentKey: '22 ooxml' }),
      row('B', 'c.xlsx', { at: 1, contentKey: '33 ooxml' }),
    ];
    const pending = pendingChecks(rows, ids, () => false);
    const delays = new Map([['id-a', 1]]);
    const taken = takeBatch(pending, 9);
    expect(taken?.batch.map(({ row: { path } }) => path)).toEqual(['a.xlsx', 'b.xlsx']);
    putBack(pending, 'id-a', taken?.batch ?? []);
    expect(takeBatch(pending, 9, delays)?.repositoryId).toBe('id-b');
    expect(takeBatch(pending, 1, delays)?.batch.map(({ row: { path } }) => path)).toEqual(['a.xlsx']);
    putBack(pending, 'id-b', []);
    expect([...pending.keys()]).toEqual(['id-a']);
  });

  it('is nothing where all is known', () => {
    expect(
      takeBatch(
        pendingChecks([row('A', 'x', { contentKey: '1 ooxml' })], ids, () => true),
        9,
      ),
    ).toBeNull();
  });
});
