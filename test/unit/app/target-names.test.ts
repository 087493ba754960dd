import { expect, it } from 'vitest';

import { findTargets } from '../../../src/app/target-names.ts';

const KNOWN = Array.from({ length: 5000 }, (_, index) => `Repository ${index}/main`);

it.each([
  ['thousands of exact', KNOWN],
  ['many unknown', KNOWN.slice(0, 120).map((name) => `${name}x`)],
])('%s names are recognised within a second, in which a daemon does nothing else', (_which, names) => {
  const startedAtMs = performance.now();
  expect(findTargets(names, '/m/mirror', KNOWN, (name) => [name])).toEqual(names);
  expect(performance.now() - startedAtMs).toBeLessThan(1000);
});
