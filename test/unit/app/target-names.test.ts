import { expect, it } from 'vitest';

import { findTargets } from '../../../src/app/target-names.ts';

it('thousands of exact names are found within a second, in which a daemon does nothing else', () => {
  const known = Array.from({ length: 5000 }, (_, index) => `Repository ${index}/feature%2Fq3`);
  const startedAtMs = performance.now();
  expect(findTargets(known, '/m/mirror', known)).toEqual(known);
  expect(performance.now() - startedAtMs).toBeLessThan(1000);
});
