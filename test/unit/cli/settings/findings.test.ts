import { describe, expect, it } from 'vitest';

import { type ErrorCode, MirrorError } from '../../../../src/lib/errors/errors.ts';
import * as findings from '../../../../src/cli/settings/findings.ts';

const { clockFinding, describeFindings, keyFindings, roomFindings, well } = findings;

describe('findings of config check', () => {
  it('name a key by its position, and judge a refused one by the others', () => {
    const verdicts = (...codes: (ErrorCode | null)[]) => {
      const failures = codes.map((code) => code && new MirrorError(code, 'no'));
      return keyFindings('the key', failures).map(({ verdict, subject }) => `${verdict} ${subject}`);
    };
    expect(verdicts('credentials.refused', null)).toEqual([
      'warning the key, key 1 of 2',
      'ok the key, key 2 of 2',
    ]);
    expect(verdicts('credentials.refused')).toEqual(['error the key']);
    expect(verdicts('service.not_found')).toEqual(['warning the key']);
  });

  it('warn of a clock that differs, and of a service that does not say the time', () => {
    const nowMs = Date.parse('2026-11-27T12:00:00Z');
    expect(clockFinding(nowMs, nowMs + 2000).verdict).toBe('ok');
    expect(clockFinding(nowMs, nowMs - 600_000).verdict).toBe('warning');
    expect(clockFinding(null, nowMs).verdict).toBe('warning');
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
