import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { findContradictions, listedContents, nextDoubt } from '../../../../src/mirror/plan/contradictions.ts';
import { groupRows, workbookOf } from '../../../../src/mirror/plan/workbooks.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import { manifestFile, manifestWith, row } from '../../../support/builders.ts';

/** A workbook as published, as listed and as in the contents. Null if absent. */
interface Workbook {
  readonly path: string;
  readonly published: { readonly versionId: string; readonly sha256: string } | null;
  readonly listed: { readonly versionId: string; readonly sha256?: string; readonly branch: string } | null;
  readonly contents: { readonly sha256: string } | null;
}

const id = fc.constantFrom('1', '2');
const sha256 = fc.constantFrom('a', 'b');

const workbooks: fc.Arbitrary<Workbook[]> = fc.uniqueArray(
  fc.record({
    path: fc.constantFrom('a.xlsx', 'b.xlsx', 'c.xlsx', 'd/a.xlsx'),
    published: fc.option(fc.record({ versionId: id, sha256 })),
    listed: fc.option(
      fc.record(
        { versionId: id, sha256, branch: fc.constantFrom('main', 'side') },
        { requiredKeys: ['versionId', 'branch'] },
      ),
    ),
    contents: fc.option(fc.record({ sha256 })),
  }),
  { selector: ({ path }) => path },
);

function find(all: readonly Workbook[]): ReturnType<typeof findContradictions> {
  const rows = all.flatMap(({ path, listed }) => (listed === null ? [] : [row({ path, ...listed })]));
  const files = all.flatMap(({ path, contents }) =>
    contents === null ? [] : [manifestFile(path, contents)],
  );
  const published = all.flatMap(({ path, published: known }) => {
    if (known === null) return [];
    const { sha256, versionId } = known;
    return [manifestFile(path, { sha256, workbook: workbookOf(row({ path, versionId })) })];
  });
  const listed = listedContents(groupRows(rows), true, 'main', { files, skipped: [] });
  return findContradictions(listed, manifestWith({ files: published }), 0);
}

describe('the contradictions between list and contents', () => {
  it('are found for each workbook separately, in any order', () => {
    fc.assert(
      fc.property(workbooks, (all) => {
        const single = all.flatMap((each) => find([each])).sort((a, b) => (a.path < b.path ? -1 : 1));
        expect(find(all)).toStrictEqual(single);
        expect(find(all.toReversed())).toStrictEqual(single);
      }),
    );
  });

  it('do not exist if contents match the listed digests, nor for workbooks listed only on other branches', () => {
    fc.assert(
      fc.property(workbooks, (all) => {
        const isProven = ({ listed, contents, published }: Workbook): boolean => {
          if (listed === null) return contents === null || published === null;
          return listed.branch !== 'main' || (contents !== null && contents.sha256 === listed.sha256);
        };
        expect(find(all.filter(isProven))).toStrictEqual([]);
      }),
    );
  });

  it('are found for every listed workbook that is lost, replaced within its version, or has old bytes under a new one', () => {
    fc.assert(
      fc.property(workbooks, (all) => {
        for (const each of all) {
          const { published, listed, contents } = each;
          if (listed?.branch !== 'main' || listed.sha256 !== undefined) continue;
          const isSameBytes = contents?.sha256 === published?.sha256;
          const isSameVersion = listed.versionId === published?.versionId;
          const isExpected = contents === null || (published !== null && isSameBytes !== isSameVersion);
          expect(find([each])).toHaveLength(isExpected ? 1 : 0);
        }
      }),
    );
  });

  it('are found for a workbook whose absence was accepted only if the list shows a version that is newer, and not from the future', () => {
    const verifiedAtMs = Date.parse('2026-03-01T12:00:00Z');
    const nowMs = verifiedAtMs + 60_000;
    const previous = { ...manifestWith({ files: [], verifiedAtMs }), missing: ['a.xlsx'] };
    const kinds = (createdAt: string | null): unknown => {
      const rows = groupRows([row({ path: 'a.xlsx', createdAt })]);
      const listed = listedContents(rows, true, 'main', { files: [], skipped: [] });
      return findContradictions(listed, previous, nowMs).map(({ kind }) => kind);
    };
    const old = ['2026-03-01T11:59:59Z', null, '2026-03-01T12:30:00Z'];
    expect([...old.map(kinds), kinds('2026-03-01T12:00:01Z')]).toEqual([[], [], [], ['missing']]);
  });

  it('say nothing about deletions if the list may lack rows, or shows them for another branch', () => {
    const files = [manifestFile('a.xlsx', { workbook: workbookOf(row({ path: 'a.xlsx' })) })];
    const kinds = (fields: Partial<WorkbookRow>, hasAllRows = true): unknown =>
      findContradictions(
        listedContents(groupRows([row(fields)]), hasAllRows, 'main', { files, skipped: [] }),
        manifestWith({ files }),
        0,
      ).map(({ kind }) => kind);
    const deleted = { path: 'a.xlsx', action: 'delete' };
    expect([kinds({ path: 'b.xlsx' }, false), kinds({ ...deleted, branch: 'side' })]).toEqual([
      ['missing'],
      [],
    ]);
    expect(kinds(deleted)).toEqual(['lingering']);
  });

  it('are found for a deleted workbook with older bytes, and for one that stays on another branch', () => {
    const at = (fields: Partial<WorkbookRow>): WorkbookRow => row({ path: 'a.xlsx', ...fields });
    const previous = manifestWith({ files: [manifestFile('a.xlsx', { workbook: workbookOf(at({})) })] });
    const contents = { files: [manifestFile('a.xlsx', { sha256: 'older' })], skipped: [] };
    const kinds = (...rows: readonly WorkbookRow[]): unknown =>
      findContradictions(listedContents(groupRows(rows), true, 'main', contents), previous, 0).map(
        ({ kind }) => kind,
      );
    const [side, both] = [
      at({ branch: 'side' }),
      [at({ path: 'b.xlsx', branch: 'x' }), at({ path: 'b.xlsx', branch: 'y' })],
    ];
    expect([kinds(), kinds(side), kinds(side, ...both)]).toEqual([['lingering'], [], ['lingering']]);
  });

  it('are never accepted with a wrong digest, and otherwise after enough equal answers', () => {
    fc.assert(
      fc.property(workbooks, (all) => {
        const found = find(all);
        const isWrong = found.some(({ kind }) => kind === 'other-bytes');
        let doubt = nextDoubt(null, found, 0);
        for (let nowMs = 1; nowMs < 10; nowMs += 1) {
          expect(doubt === null).toBe(found.length === 0);
          doubt = nextDoubt(doubt, found, nowMs);
        }
        expect(nextDoubt(doubt, found, 60_000) === null).toBe(!isWrong);
      }),
    );
  });

  it('are the same for another version of the workbook, and differ for other bytes', () => {
    const at = (versionId: string, digest: string): ReturnType<typeof find> => [
      { kind: 'unannounced', path: 'a.xlsx', versionId, sha256: digest },
    ];
    const first = nextDoubt(null, at('1', 'a'), 0);
    expect(nextDoubt(first, at('2', 'a'), 1000)).toMatchObject({ answers: 2, sinceMs: 0 });
    expect(nextDoubt(first, at('1', 'b'), 1000)).toMatchObject({ answers: 1, sinceMs: 1000 });
    const lingering = (paths: readonly string[]): ReturnType<typeof find> =>
      paths.map((path) => ({ kind: 'lingering', path, versionId: '1', sha256: path }));
    const rebuilt = nextDoubt(null, lingering(['a.xlsx', 'b.xlsx']), 0);
    const shorter = nextDoubt(rebuilt, lingering(['b.xlsx']), 1000);
    expect(shorter).toMatchObject({ answers: 2, sinceMs: 0 });
    expect(nextDoubt(shorter, lingering(['a.xlsx', 'b.xlsx']), 6000)).toMatchObject({ answers: 1 });
    const many = lingering(Array.from({ length: 1500 }, (_, at) => `${at}.xlsx`));
    expect(nextDoubt(nextDoubt(nextDoubt(null, many, 0), many, 1000), many, 6000)).toBeNull();
  });
});
