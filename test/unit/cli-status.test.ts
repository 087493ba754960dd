import { expect, it } from 'vitest';

import { describeStatus } from '../../src/cli/status.ts';

const TARGET = {
  target: 'Plan/main',
  repository: 'Plan',
  branch: 'main',
  state: 'quarantined',
  isStale: false,
  verifiedAtMs: 1,
  changedAtMs: 1,
  checkedAtMs: 1,
  nextFullCheckAtMs: null,
  nextAttemptAtMs: null,
  fingerprint: null,
  files: 1,
  sizeBytes: 1,
  failure: {
    code: 'publish.refused',
    action: 'quarantine',
    message: 'refused',
    hint: null,
    attempts: 1,
    sinceMs: 1,
    lastAtMs: 1,
    nextAttemptAtMs: 20,
    fingerprint: null,
  },
  held: null,
  drift: { added: 0, missing: 0, modified: 1, first: 'b.xlsx', sinceMs: 2 },
  restoredAtMs: null,
} as const;

it('a tree that someone changed is told of beside the failure that keeps it from being put right', () => {
  const text = describeStatus({
    nowMs: 10,
    maxStalenessMs: 1000,
    lastPass: null,
    leases: [],
    hooksDue: null,
    targets: [TARGET],
  });
  expect(text).toMatch(/publish\.refused: refused.*someone changed it: .*b\.xlsx/);
});
