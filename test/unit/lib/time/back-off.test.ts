import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { backOffDelayMs, retryAfterMs } from '../../../../src/lib/time/back-off.ts';

describe('the wait after failures', () => {
  const policy = { firstDelayMs: 1000, maxDelayMs: 60_000 };

  it('is between half and all of the doubled wait, and within the limit', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (attempts, random) => {
          const grown = Math.min(policy.maxDelayMs, policy.firstDelayMs * 2 ** (attempts - 1));
          const delayMs = backOffDelayMs(policy, attempts, random);
          expect(delayMs).toBeGreaterThanOrEqual(grown / 2);
          expect(delayMs).toBeLessThanOrEqual(grown);
          expect(Number.isInteger(delayMs)).toBe(true);
        },
      ),
    );
  });

  it('is never shorter than the service requests', () => {
    expect(backOffDelayMs(policy, 1, 0, 5000)).toBe(5000);
    expect(backOffDelayMs(policy, 5, 1, 5000)).toBe(16_000);
    expect(backOffDelayMs(policy, 1, 1, 0)).toBe(1000);
  });

  it.each([
    [undefined, undefined],
    ['120', 120_000],
    [' 0 ', 0],
    ['Mon, 02 Jun 2025 10:01:00 GMT', 60_000],
    ['Mon, 02 Jun 2025 09:00:00 GMT', 0],
    ['soon', undefined],
    ['', undefined],
  ])('reads the header %j', (header, delayMs) => {
    expect(retryAfterMs(header, Date.UTC(2025, 5, 2, 10))).toBe(delayMs);
  });
});
