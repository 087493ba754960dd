import { expect, it } from 'vitest';

import { describeStatus } from '../../src/cli/status.ts';
import { failure } from '../support/builders.ts';
import { targetStatus } from '../support/report.ts';

const TARGET = targetStatus({
  state: 'quarantined',
  failure: failure({ code: 'publish.refused', action: 'quarantine', message: 'refused' }),
  drift: { added: 0, missing: 0, modified: 1, first: 'b.xlsx', sinceMs: 2 },
});

it('a tree that someone changed is told of beside the failure that keeps it from being put right', () => {
  const text = describeStatus({
    nowMs: 10,
    maxStalenessMs: 1000,
    lastPass: null,
    leases: [],
    hooksDue: null,
    slowPulls: {},
    targets: [TARGET],
  });
  expect(String(text)).toMatch(/publish\.refused: refused.*someone changed it: .*b\.xlsx/);
});
