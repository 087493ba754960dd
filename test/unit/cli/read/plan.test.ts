import { expect, it } from 'vitest';

import type { PlannedTarget } from '../../../../src/app/tasks/plan.ts';
import { describePlan } from '../../../../src/cli/read/plan.ts';

function planned(fields: Partial<PlannedTarget>): PlannedTarget {
  return {
    target: 'Accounting/main',
    action: 'pull',
    reason: 'versions-changed',
    isHeld: false,
    deselection: null,
    movedFrom: null,
    lastArchiveBytes: null,
    files: null,
    ...fields,
  };
}

const sized = (lastArchiveBytes: number): PlannedTarget => planned({ lastArchiveBytes });
const deselected = planned({
  action: 'keep',
  isHeld: true,
  deselection: { subject: 'deselected', deletions: 1, of: 2, digest: null },
});

it.each<[string, PlannedTarget[], RegExp]>([
  ['nothing to pull', [planned({ action: 'keep' })], /\nNothing would be pulled\.$/],
  ['the sum of last archives', [sized(2000), sized(3000)], /\n2 .*, 5\.0 kB by .* the last archives\.$/],
  ['an unknown size', [planned({})], /1 target would be pulled, 1 of unknown size\.$/],
  ['some unknown sizes', [sized(2000), planned({})], /, 2\.0 kB by .*, 1 of unknown size\.$/],
  ['a question', [planned({ reason: 'confirm-gone' })], /Only the contents show whether a .* is gone\.$/],
  ['a hold', [planned({ action: 'hold', isHeld: true })], /\n1 target would be held\.$/],
  ['a deselection', [deselected], /hold .*\n1 target would be held\.\nThe settings no longer select 1 of/s],
  ['a deselected target that stays', [planned({ reason: 'not-selected', action: 'hold' })], /^ *leave/m],
  ['a move', [planned({ movedFrom: 'Old/main' })], /^ *pull \(moves\)/m],
])('a plan shows %s', (_what, targets, text) => {
  expect(String(describePlan(targets))).toMatch(text);
});
