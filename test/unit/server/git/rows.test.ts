import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { compareRows, mergeRows } from '../../../../src/server/git/rows.ts';
import { isSettled, type Stamp } from '../../../../src/server/git/ref-files.ts';
import type { WorkbookRow } from '../../../../src/server/http/library.ts';

function row(integration: string, path: string, branch: string): WorkbookRow {
  const createdAt = '2026-01-02T03:04:05+00:00';
  const version = { id: 'c', author: 'A', action: 'add', createdAt, message: 'm', parentId: null };
  return { id: `${integration}/${path}`, integration, branch, path, version };
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
            rows: files.map(([path, branch]) => row(integration, path, branch)).sort(compareRows),
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
