import { describe, expect, it } from 'vitest';

import { judgeWhole } from '../../../../src/cli/read/status-all.ts';
import type { ShareReport } from '../../../../src/mirror/store/documents.ts';

const NOW_MS = 1_000_000_000;

const REPORT = {
  directoryId: 'd',
  writtenAtMs: NOW_MS - 1000,
  failure: null,
  maxStalenessMs: 60_000,
  targets: 10,
  notWell: 0,
  oldestVerifiedAtMs: NOW_MS - 2000,
};

function report(index: number, count: number, fields: Partial<ShareReport> = {}): ShareReport {
  return { ...REPORT, index, count, host: `host-${index}`, ...fields };
}

describe('judgeWhole', () => {
  it('is well if every share is', () => {
    const whole = judgeWhole([report(1, 3), report(3, 3), report(2, 3)], NOW_MS);
    expect(whole).toMatchObject({ count: 3, isWell: true, disagreeing: [] });
    expect(whole.shares.map(({ index, state }) => `${index} ${state}`)).toEqual([
      '1 well',
      '2 well',
      '3 well',
    ]);
  });

  it.each([
    ['never worked', [report(1, 2)], 'missing'],
    ['is silent', [report(1, 2), report(2, 2, { writtenAtMs: NOW_MS - 60_001 })], 'silent'],
    ['failed', [report(1, 2), report(2, 2, { failure: 'The service is away.' })], 'not-well'],
    ['has targets that are not well', [report(1, 2), report(2, 2, { notWell: 1 })], 'not-well'],
  ])('is not better than a share that %s', (_, reports, state) => {
    const whole = judgeWhole(reports, NOW_MS);
    expect(whole.isWell).toBe(false);
    expect(whole.shares[1]).toMatchObject({ index: 2, state });
  });

  it('is unknown without any report', () => {
    expect(judgeWhole([], NOW_MS)).toEqual({ count: 0, shares: [], disagreeing: [], isWell: false });
  });

  it('uses the count of the latest report, and names instances that recently reported another', () => {
    const old = report(4, 5, { writtenAtMs: NOW_MS - 30_000 });
    const forgotten = report(5, 5, { writtenAtMs: NOW_MS - 90_000 });
    const whole = judgeWhole([old, forgotten, report(1, 2), report(2, 2)], NOW_MS);
    expect(whole).toMatchObject({ count: 2, isWell: false, disagreeing: [old] });
    expect(judgeWhole([forgotten, report(1, 2), report(2, 2)], NOW_MS).isWell).toBe(true);
  });
});
