import { describe, expect, it } from 'vitest';

import { describeAge } from '../../../../src/cli/service/serve.ts';

const NOW_MS = Date.parse('2026-01-02T03:04:05Z');
const MINUTE_MS = 60_000;

describe('the age of a replica', () => {
  it.each([
    ['nothing at all', null, null, 'Nothing is mirrored yet.'],
    [
      'a mirror without a daemon',
      MINUTE_MS,
      null,
      'Verified longest ago: 2026-01-02T03:03:05Z, 60 s ago. No pass of the daemon is on record.',
    ],
    [
      'a mirror that is too old',
      30 * MINUTE_MS,
      null,
      'Verified longest ago: 2026-01-02T02:34:05Z, 30 min ago, longer than maxStaleness (15 min). No pass of the daemon is on record.',
    ],
    [
      'a daemon that works',
      MINUTE_MS,
      { failure: null },
      "Verified longest ago: 2026-01-02T03:03:05Z, 60 s ago. The daemon's last pass: 5.0 s ago.",
    ],
    [
      'a daemon that fails',
      MINUTE_MS,
      { failure: { code: 'service.unreachable' as const, message: 'm', hint: null } },
      "Verified longest ago: 2026-01-02T03:03:05Z, 60 s ago. The daemon's last pass: 5.0 s ago, failed: service.unreachable.",
    ],
  ])('of %s', (_what, ageMs, pass, expected) => {
    const oldestVerifiedAtMs = ageMs === null ? null : NOW_MS - ageMs;
    const lastPass = pass === null ? null : { startedAtMs: NOW_MS - 5000, ...pass };
    expect(describeAge({ oldestVerifiedAtMs }, lastPass, 15 * MINUTE_MS, NOW_MS)).toBe(expected);
  });
});
