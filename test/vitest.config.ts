import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { defineConfig } from 'vitest/config';

/** Notes which changes of the sources a test comes to, where test/mutation asks for it. */
const MUTATION =
  process.env['MUTATION_ROOT'] === undefined ? [] : [join(import.meta.dirname, 'mutation/setup.ts')];

const SETUP = [
  // Where a law is to be tried with the same inputs every time: PROPERTY_SEED.
  'support/property-seed.ts',
  'support/poison-pieces.ts',
  'support/quick-retries.ts',
  'support/quick-disk.ts',
]
  .map((file) => join(import.meta.dirname, file))
  .concat(MUTATION);

/** Vitest itself leaves one processor out, so that on two of them one file would run at a time while much of it waits. */
const WORKERS = '100%';

/** Unit tests that put something in the place of a module: others that run in the same process have loaded the module already. */
const MOCKING = globSync('unit/**/*.test.ts', { cwd: import.meta.dirname }).filter((file) =>
  /\bvi\.(?:doMock|mock)\(/.test(readFileSync(join(import.meta.dirname, file), 'utf8')),
);

/** Tests that start the program start what is built from these sources. */
const BUILT = [join(import.meta.dirname, 'support/built.ts')];

/** A report for machines has the message of a failure alone: what was found must be in it. 0 shortens nothing. */
const CHAI = { truncateThreshold: 0 };

/** The attacks are bounded run by run; all of them together take hours. */
const ATTACK_TIMEOUT_MS = 12 * 3_600_000;

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
          // Thousands of random inputs take longer where other work keeps the machine busy.
          testTimeout: 60_000,
        },
      },
      {
        test: { name: 'unit-mocking', include: MOCKING, setupFiles: SETUP, testTimeout: 60_000 },
      },
      {
        test: {
          name: 'integration',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['integration/**/*.test.ts'],
          exclude: ['**/*.long.test.ts'],
          setupFiles: SETUP,
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'long',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['integration/**/*.long.test.ts'],
          setupFiles: SETUP,
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'e2e',
          maxWorkers: WORKERS,
          globalSetup: BUILT,
          include: ['e2e/**/*.test.ts'],
          setupFiles: MUTATION,
          testTimeout: 180_000,
        },
      },
      {
        test: {
          name: 'system',
          globalSetup: BUILT,
          include: ['system/**/*.test.ts'],
          testTimeout: 600_000,
          hookTimeout: 600_000,
          fileParallelism: false,
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
