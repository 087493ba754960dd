import { describe, expect, it } from 'vitest';

import * as findings from '../../../../src/cli/settings/findings.ts';

const { clockFinding, describeFindings, keyFindings, roomFindings, well } = findings;

describe('findings of config check', () => {
  it('name a key by its position, and judge a refused one by the others', () => {
    const verdicts = (...statuses: number[]) => {
      const answers = statuses.map((status) => ({ status, failure: status === 0 ? new Error('no') : null }));
      const found = keyFindings('the key', answers, 'Access');
      return found.map(({ verdict, subject }) => `${verdict} ${subject}`);
    };
    expect(verdicts(401, 200)).toEqual(['warning the key, key 1 of 2', 'ok the key, key 2 of 2']);
    expect(verdicts(401)).toEqual(['error the key']);
    expect(verdicts(0)).toEqual(['error the key']);
  });

  it('warn of a clock that differs, and of a service that does not say the time', () => {
    const date = 'Fri, 27 Nov 2026 12:00:00 GMT';
    const judged = (text: string | undefined, aheadMs: number) =>
      clockFinding(text, Date.parse(date) + aheadMs).verdict;
    expect(judged(date, 2000)).toBe('ok');
    expect(judged(date, -600_000)).toBe('warning');
    expect(judged(undefined, 0)).toBe('warning');
  });

  it('judge room by its share, and know file systems without a fixed number of inodes', () => {
    const verdicts = (freeBytes: number, totalInodes: number, freeInodes = 0) =>
      roomFindings({ freeBytes, totalBytes: 1000, freeInodes, totalInodes }).map(({ verdict }) => verdict);
    expect(verdicts(500, 0)).toEqual(['ok', 'ok']);
    expect(verdicts(50, 0)).toEqual(['warning', 'ok']);
    expect(verdicts(5, 10)).toEqual(['error', 'error']);
    expect(verdicts(500, 100, 5)).toEqual(['ok', 'warning']);
  });

  it('show below each what there is to do', () => {
    const text = String(describeFindings([well('a', 'fine'), { ...well('b', 'bad'), whatToDo: 'Mend.' }]));
    const lines = ['ok      a        fine', 'ok      b        bad', '  Mend.', '0 errors, 0 warnings'];
    expect(text.split('\n').slice(1)).toEqual(lines);
  });
});
