import { expect, it } from 'vitest';

import { targetTable, usuallyListed } from '../../../../src/cli/read/target-table.ts';
import { targetStatus } from '../../../support/report.ts';

/** So many targets, the first of which is stale. */
function targets(count: number) {
  return Array.from({ length: count }, (_, at) =>
    targetStatus({ target: `A/${at}`, ...(at === 0 ? { state: 'stale', isStale: true } : {}) }),
  );
}

it('few targets are all listed', () => {
  expect(usuallyListed(targets(20))).toHaveLength(20);
});

it('a target whose tree is gone from the disk says so', () => {
  const drift = { added: 0, missing: 1, modified: 0, first: '.', sinceMs: 2 };
  const troubles = (status: Parameters<typeof targetStatus>[0]): string | undefined =>
    String(targetTable([targetStatus({ isStale: true, drift, ...status })], 1, 0)).split('\n')[2];
  expect(troubles({ state: 'damaged' })).toBe('  damaged; its tree or manifest is gone or unreadable');
  expect(troubles({ state: 'held' })).toMatch(/someone changed it: the tree is gone from the disk/);
});

it('among many targets only those that need attention are listed; the others are counted', () => {
  const many = targets(5000);
  const listed = usuallyListed(many);
  expect(listed).toEqual(many.slice(0, 1));
  expect(String(targetTable(listed, 5000, 0)).split('\n')).toEqual([
    expect.stringMatching(/^STATE/),
    expect.stringMatching(/^late .* A\/0$/),
    '',
    expect.stringMatching(/^4999 other targets need no attention: /),
  ]);
  expect(String(targetTable([], 5000, 0))).toMatch(/^No target needs attention: /);
});
