import { describe, expect, it } from 'vitest';

import {
  clockFinding,
  describeFindings,
  keyFindings,
  roomFindings,
  well,
} from '../../../../src/cli/settings/findings.ts';

describe('findings of config check', () => {
  it('name a key by its position, and judge a refused one by the others', () => {
    const [accepted, refused] = [200, 401].map((status) => ({ status, failure: null }));
    if (accepted === undefined || refused === undefined) throw new Error('no answers');
    const verdicts = (...answers: (typeof accepted)[]) =>
      keyFindings('service.apiKey', answers, 'Access').map(({ verdict, subject }) => `${verdict} ${subject}`);
    expect(verdicts(refused, accepted)).toEqual([
      'warning service.apiKey, key 1 of 2',
      'ok service.apiKey, key 2 of 2',
    ]);
    expect(verdicts(refused)).toEqual(['error service.apiKey']);
    const failure = new Error('no answer');
    expect(keyFindings('service.apiKey', [{ status: 0, failure }], 'Access')[0]?.verdict).toBe('error');
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
    const verdicts = (freeBytes: number, totalInodes: number) =>
      roomFindings({ freeBytes, totalBytes: 1000, freeInodes: 0, totalInodes }).map(({ verdict }) => verdict);
    expect(verdicts(500, 0)).toEqual(['ok', 'ok']);
    expect(verdicts(50, 0)).toEqual(['warning', 'ok']);
    expect(verdicts(5, 10)).toEqual(['error', 'error']);
  });

  it('show below each what there is to do', () => {
    const text = String(describeFindings([well('a', 'fine'), { ...well('b', 'bad'), whatToDo: 'Mend.' }]));
    expect(text.split('\n').slice(1)).toEqual([
      'ok      a        fine',
      'ok      b        bad',
      '  Mend.',
      '0 errors, 0 warnings',
    ]);
  });
});
