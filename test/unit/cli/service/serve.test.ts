import { describe, expect, it } from 'vitest';

import { describeAge } from '../../../../src/cli/service/serve.ts';

const NOW_MS = Date.parse('2026-01-02T03:04:05Z');
const MINUTE_MS = 60_000;
const PASS = { startedAtMs: NOW_MS - 5000, failure: null };
const FAILED = { ...PASS, failure: { code: 'service.unreachable', message: 'm', hint: null } } as const;
const LATELY = 'Oldest data: verified 2026-01-02T03:03:05Z, 60 s ago.';
const OLD =
  'Oldest data: verified 2026-01-02T02:34:05Z, 30 min ago, longer than maxStaleness (15 min). No pass of the daemon is on record.';

describe('the age of a replica', () => {
  it.each([
    ['a mirror without a daemon', 1, null, `${LATELY} No pass of the daemon is on record.`],
    ['a mirror that is too old', 30, null, OLD],
    ['a daemon that works', 1, PASS, `${LATELY} The daemon's last pass: 5.0 s ago.`],
    [
      'a daemon that fails',
      1,
      FAILED,
      `${LATELY} The daemon's last pass: 5.0 s ago, failed: service.unreachable.`,
    ],
  ])('of %s', (_what, ageMinutes, lastPass, expected) => {
    const oldestVerifiedAtMs = NOW_MS - ageMinutes * MINUTE_MS;
    expect(describeAge({ oldestVerifiedAtMs }, lastPass, 15 * MINUTE_MS, NOW_MS)).toBe(expected);
  });

  it('is unknown without any target', () => {
    const nothing = { oldestVerifiedAtMs: null };
    expect(describeAge(nothing, null, 15 * MINUTE_MS, NOW_MS)).toBe('Nothing is mirrored yet.');
  });
});
