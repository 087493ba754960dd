import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { defineConfig } from 'vitest/config';

/** Records the changes of the sources that a test reaches, if test/mutation asks for it. */
const MUTATION =
  process.env['MUTATION_ROOT'] === undefined ? [] : [join(import.meta.dirname, 'mutation/setup.ts')];

const SETUP = [
  // Gives properties the same inputs every time, if PROPERTY_SEED is set.
  'support/property-seed.ts',
  'support/poison-pieces.ts',
  'support/quick-retries.ts',
  'support/quick-disk.ts',
  'support/undo.ts',
]
  .map((file) => join(import.meta.dirname, file))
  .concat(MUTATION);

/** Vitest leaves one processor out by default: with two of them it would run one file at a time, which waits for most of its time. */
const WORKERS = '100%';

/** Unit tests that replace a module: other tests of the same process have loaded it already. */
const MOCKING = globSync('unit/**/*.test.ts', { cwd: import.meta.dirname }).filter((file) =>
  /\bvi\.(?:doMock|mock)\(/.test(readFileSync(join(import.meta.dirname, file), 'utf8')),
);

/** Builds the program for the tests that start it. */
const BUILT = [join(import.meta.dirname, 'support/built.ts')];

/** The JSON report has only the message of a failure: 0 shortens nothing in it. */
const CHAI = { truncateThreshold: 0 };

/** Each run of an attack has its own limit; all of them together take hours. */
const ATTACK_TIMEOUT_MS = 12 * 3_600_000;

/** No test asserts a time: these limits only end a test that hangs, on a busy machine as well. In milliseconds. */
const PATIENT = { testTimeout: 300_000, hookTimeout: 300_000, expect: { poll: { timeout: 120_000 } } };

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    chaiConfig: CHAI,
    reporters: ['default', join(import.meta.dirname, 'support/skipped-reporter.ts')],
    projects: [
      {
        test: {
          name: 'unit',
          maxWorkers: WORKERS,
          include: ['unit/**/*.test.ts'],
          exclude: MOCKING,
          // Loading modules for each file again takes more than half of the time.
          isolate: false,
          setupFiles: SETUP,
          ...PATIENT,
        },
      },
      {
        test: { name: 'unit-mocking', include: MOCKING, setupFiles: SETUP, ...PATIENT },
      },
      {
        test: {
          name: 'integration',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['integration/**/*.test.ts'],
          exclude: ['**/*.long.test.ts'],
          setupFiles: SETUP,
          ...PATIENT,
        },
      },
      {
        test: {
          name: 'long',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['integration/**/*.long.test.ts'],
          setupFiles: SETUP,
          ...PATIENT,
        },
      },
      {
        test: {
          name: 'e2e',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['e2e/**/*.test.ts'],
          setupFiles: MUTATION,
          ...PATIENT,
          // Each starts many programs, one after the other.
          testTimeout: 900_000,
        },
      },
      {
        test: {
          name: 'system',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['system/**/*.test.ts'],
          // Each boots machines, or builds packages.
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          name: 'attack',
          include: ['attack/**/*.test.ts'],
          globalSetup: BUILT,
          testTimeout: ATTACK_TIMEOUT_MS,
          hookTimeout: ATTACK_TIMEOUT_MS,
          fileParallelism: false,
        },
      },
    ],
  },
});
