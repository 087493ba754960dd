import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { compareRows, mergeRows } from '../../../../src/server/git/rows.ts';
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
