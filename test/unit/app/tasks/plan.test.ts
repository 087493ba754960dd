import { describe, expect, it } from 'vitest';

import type { Action } from '../../../../src/mirror/plan/actions.ts';
import { fileDifferences } from '../../../../src/app/tasks/file-differences.ts';
import { foreseeChanges } from '../../../../src/app/tasks/plan.ts';
import { makePlan } from '../../../../src/mirror/plan/plan.ts';
import { groupRows, workbookOf } from '../../../../src/mirror/plan/workbooks.ts';
import type { WorkbookRow } from '../../../../src/mirror/upstream/listing.ts';
import {
  listing,
  manifestFile,
  manifestWith,
  planInput,
  planPolicy,
  publishedUnder,
  repository,
  row,
} from '../../../support/builders.ts';

const ACCOUNTING = repository();
const BEFORE = [row({ path: 'p.xlsx' }), row({ path: 'q.xlsx' }), row({ path: 'r.xlsx' })];

const MANIFEST = manifestWith({
  fingerprint: 'published',
  files: BEFORE.map((each) => manifestFile(each.path, { workbook: workbookOf(each), sizeBytes: 100 })),
});

/** The only action planned for a mirror that published the rows before. */
function actionFor(rows: readonly WorkbookRow[], content: 'auto' | 'all' = 'auto'): Action {
  const trees = [publishedUnder(ACCOUNTING, BEFORE)];
  const facts = { listing: listing({ workbooks: rows }), published: trees, policy: planPolicy({ content }) };
  const [action] = makePlan(planInput(facts));
  if (action === undefined) throw new Error('nothing is planned');
  return action;
}

describe('the file changes that an action would make', () => {
  it('are empty if it keeps or holds', () => {
    const keep = actionFor(BEFORE);
    expect(keep.kind).toBe('keep');
    expect(foreseeChanges(keep, MANIFEST, groupRows(BEFORE))).toEqual({ differences: [], isComplete: true });
  });

  it('are just the new versions if these are pulled one by one', () => {
    const rows = [row({ path: 'p.xlsx', versionId: 'v2', sizeBytes: 7, sha256: 'new' }), ...BEFORE.slice(1)];
    const [[was = row()], [is = row()]] = [BEFORE, rows];
    const before = { sizeBytes: 100, sha256: 'digest of p.xlsx', workbook: workbookOf(was) };
    const after = { sizeBytes: 7, sha256: 'new', workbook: workbookOf(is) };
    expect(foreseeChanges(actionFor(rows), MANIFEST, groupRows(rows))).toEqual({
      differences: [{ change: 'changed', path: 'p.xlsx', movedFrom: null, before, after }],
      isComplete: true,
    });
    expect(foreseeChanges(actionFor(rows, 'all'), MANIFEST, groupRows(rows)).isComplete).toBe(false);
  });

  it('do not delete a workbook that is no longer listed: only the contents prove that', () => {
    const rows = [...BEFORE.slice(1), row({ path: 'a.xlsx' }), row({ path: 'a.xlsx', branch: 'other' })];
    const { differences, isComplete } = foreseeChanges(actionFor(rows), MANIFEST, groupRows(rows));
    expect(differences.map(({ change, path }) => [change, path])).toEqual([['added', 'a.xlsx']]);
    expect(differences[0]?.after).toMatchObject({ sizeBytes: null, sha256: null });
    expect(isComplete).toBe(false);
  });

  it('omit a version with the same bytes, and everything without a list', () => {
    const rows = [row({ path: 'p.xlsx', versionId: 'v2', sha256: 'digest of p.xlsx' }), ...BEFORE.slice(1)];
    const action = actionFor(rows);
    expect(foreseeChanges(action, MANIFEST, groupRows(rows)).differences).toEqual([]);
    expect(foreseeChanges(action, MANIFEST, null)).toEqual({ differences: [], isComplete: false });
  });

  it('are all files if the tree leaves the mirror', () => {
    const { kind: _kind, reason: _reason, ...rest } = actionFor(BEFORE);
    const retire = { ...rest, kind: 'retire', reason: 'branch-gone' } as const;
    expect(foreseeChanges(retire, MANIFEST, groupRows(BEFORE))).toEqual({
      differences: fileDifferences(MANIFEST.files, []),
      isComplete: true,
    });
  });
});
