import { expect, it } from 'vitest';

import { findTargets } from '../../../src/app/target-names.ts';

it('thousands of exact names are found within a second, in which a daemon does nothing else', () => {
  const known = Array.from({ length: 5000 }, (_, index) => `Repository ${index}/feature%2Fq3`);
  const startedAtMs = performance.now();
  expect(findTargets(known, '/m/mirror', known)).toEqual(known);
  expect(performance.now() - startedAtMs).toBeLessThan(1000);
});

it('many unknown names are recognised within a second', () => {
  const known = Array.from({ length: 5000 }, (_, index) => `Repository ${index}/main`);
  const unknown = Array.from({ length: 120 }, (_, index) => `Repository ${index}/mian`);
  const startedAtMs = performance.now();
  expect(findTargets(unknown, '/m/mirror', known, (name) => [name])).toEqual(unknown);
  expect(performance.now() - startedAtMs).toBeLessThan(1000);
});
