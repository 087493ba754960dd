import { describe, expect, it } from 'vitest';

import {
  attemptsOf,
  credentialSetting,
  type Refusal,
  refusedUntilMs,
  triedAnew,
  withoutRefusal,
  withRefusal,
} from '../../../../src/mirror/upstream/key-refusals.ts';

const NOW_MS = Date.UTC(2026, 0, 1);
const MINUTE_MS = 60_000;

/** The refusals after a key was refused so often in a row, without jitter, always at the same time. */
function refusedTimes(times: number, digest = 'a', before: readonly Refusal[] = []): readonly Refusal[] {
  let refusals = before;
  for (let attemptsBefore = 0; attemptsBefore < times; attemptsBefore += 1) {
    refusals = withRefusal(refusals, { digest, attemptsBefore, nowMs: NOW_MS, random: 1, retryAfterMs: 0 });
  }
  return refusals;
}

describe('the back off of a key that is refused', () => {
  it('doubles from a minute to an hour', () => {
    const minutes = [1, 2, 3, 4, 5, 6, 7, 20].map(
      (times) => ((refusedUntilMs(refusedTimes(times), 'a', NOW_MS) ?? 0) - NOW_MS) / MINUTE_MS,
    );
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });

  it('is over at its time', () => {
    const refusals = refusedTimes(1);
    expect(refusedUntilMs(refusals, 'a', NOW_MS + MINUTE_MS - 1)).toBe(NOW_MS + MINUTE_MS);
    expect(refusedUntilMs(refusals, 'a', NOW_MS + MINUTE_MS)).toBeNull();
  });

  it('is none when a clock that was ahead reckoned it', () => {
    expect(refusedUntilMs(refusedTimes(1), 'a', NOW_MS - 25 * 60 * MINUTE_MS)).toBeNull();
  });

  it('is never shorter than the service asks for', () => {
    const refused = { digest: 'a', attemptsBefore: 0, nowMs: NOW_MS, random: 0, retryAfterMs: 5 * MINUTE_MS };
    expect(refusedUntilMs(withRefusal([], refused), 'a', NOW_MS)).toBe(NOW_MS + 5 * MINUTE_MS);
  });

  it('holds for this key only', () => {
    expect(refusedUntilMs(refusedTimes(3), 'b', NOW_MS)).toBeNull();
    expect(attemptsOf(refusedTimes(3), 'b')).toBe(0);
  });

  it('grows once for requests that were under way together', () => {
    const late = { digest: 'a', attemptsBefore: 0, nowMs: NOW_MS, random: 1, retryAfterMs: 0 };
    const refusals = refusedTimes(1);
    expect(withRefusal(refusals, late)).toBe(refusals);
  });

  it('goes on growing after the key was tried anew for a person', () => {
    const anew = triedAnew(refusedTimes(2), ['a'], NOW_MS);
    expect(refusedUntilMs(anew, 'a', NOW_MS)).toBeNull();
    const again = { digest: 'a', attemptsBefore: 2, nowMs: NOW_MS, random: 1, retryAfterMs: 0 };
    expect(refusedUntilMs(withRefusal(anew, again), 'a', NOW_MS)).toBe(NOW_MS + 4 * MINUTE_MS);
  });

  it('is forgotten when the key is accepted', () => {
    const both = refusedTimes(1, 'b', refusedTimes(1));
    expect(withoutRefusal(both, 'a')).toEqual(refusedTimes(1, 'b'));
  });

  it('is kept for a few keys only, the last ones', () => {
    let refusals: readonly Refusal[] = [];
    for (let key = 0; key < 100; key += 1) refusals = refusedTimes(1, String(key), refusals);
    expect(refusals.length).toBeLessThan(10);
    expect(attemptsOf(refusals, '99')).toBe(1);
  });
});

it('names the setting that a key comes from', () => {
  expect(credentialSetting('apiKey', 'first')).toBe('service.apiKey');
  expect(credentialSetting('apiToken', 'second')).toBe('service.apiTokenSecond');
});
