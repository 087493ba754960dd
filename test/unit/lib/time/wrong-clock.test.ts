import { expect, it } from 'vitest';

import { latestFirst } from '../../../../src/lib/time/wrong-clock.ts';

it('latestFirst sorts the latest first, and times in the future last; the present moment is not in the future', () => {
  const byTime = latestFirst(5);
  expect([3, 9, 5, 7].sort(byTime)).toEqual([5, 3, 9, 7]);
  expect(byTime(3, 5)).toBeGreaterThan(0);
});
