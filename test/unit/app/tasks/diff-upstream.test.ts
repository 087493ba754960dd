import { describe, expect, it } from 'vitest';
import { planComparison } from '../../../../src/app/tasks/diff-upstream.ts';
import type { PlanInput } from '../../../../src/mirror/plan/actions.ts';
import {
  listing,
  NOW_MS,
  planInput,
  published,
  publishedUnder,
  repository,
  row,
} from '../../../support/builders.ts';

const ACCOUNTING = repository();
const ROWS = [row(), row({ path: 'b.xlsx' })];
const OTHER = { repositories: [repository({ fullName: 'Other' })] };

/** How the present state of a target is found out. */
function planned(fields: Partial<PlanInput>, path = 'Accounting/main'): ReturnType<typeof planComparison> {
  return planComparison(planInput({ listing: listing({ workbooks: ROWS }), ...fields }), path);
}

describe('the present state of a target on the service', () => {
  it('comes from the lists if they show the published versions, however old the last full comparison is', () => {
    for (const verifiedAtMs of [NOW_MS, 0]) {
      const trees = [publishedUnder(ACCOUNTING, ROWS, { verifiedAtMs })];
      expect(planned({ published: trees })).toMatchObject({
        isAsListed: true,
        action: { kind: 'pull', depth: 'facts', byWorkbook: 'no' },
      });
    }
  });

  it('is requested if a version is new, even for waiting, held and unselected targets', () => {
    const trees = [publishedUnder(ACCOUNTING, [row({ versionId: 'v0' }), row({ path: 'b.xlsx' })])];
    const { policy } = planInput();
    const none = { ...policy.selection, selects: () => false };
    const tight = { files: { kind: 'count', count: 0 }, targets: { kind: 'count', count: 0 } } as const;
    for (const each of [policy, { ...policy, selection: none }, { ...policy, guard: tight }]) {
      expect(planned({ published: trees, policy: each })).toMatchObject({
        isAsListed: false,
        action: { kind: 'pull', reason: 'versions-changed', byWorkbook: 'in-trees-of-workbooks' },
      });
    }
    const processing = listing({ workbooks: [row({ processing: 1 })] });
    expect(planned({ listing: processing })).toMatchObject({
      isAsListed: false,
      action: { kind: 'pull', reason: 'never-mirrored', settled: false },
    });
  });

  it('is absent if complete lists lack the target, even for a restored tree', () => {
    for (const [restoredAtMs, action] of [
      [null, { kind: 'retire' }],
      [1, { kind: 'hold', reason: 'restored' }],
    ] as const) {
      const trees = [published(ACCOUNTING, { restoredAtMs })];
      expect(planned({ listing: listing(OTHER), published: trees })).toMatchObject({ action });
    }
  });

  it.each([
    ['no-repositories-listed', { repositories: [] }],
    ['listing-incomplete', { ...OTHER, repositoriesComplete: false }],
    ['listing-contradicts-itself', { ...OTHER, workbooks: ROWS }],
  ])('does not come from lists that prove nothing: %s', (reason, fields) => {
    const found = planned({ listing: listing(fields), published: [published(ACCOUNTING)] });
    expect(found).toMatchObject({ action: { kind: 'hold', reason } });
  });

  it('is found at the old and at the new path of a renamed repository', () => {
    const renamed = repository({ id: ACCOUNTING.id, fullName: 'Finance' });
    const facts = { listing: listing({ repositories: [renamed] }), published: [published(ACCOUNTING)] };
    for (const path of ['Accounting/main', 'Finance/main'])
      expect(planned(facts, path)?.action.published?.path).toBe('Accounting/main');
    expect(planned(facts, 'Elsewhere/main')).toBeNull();
  });
});
