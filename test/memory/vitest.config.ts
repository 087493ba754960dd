import { defineConfig } from 'vitest/config';

/** Not part of the default run: it moves gigabytes and takes minutes. */
export default defineConfig({
  cacheDir: '../../node_modules/.vite',
  test: { root: import.meta.dirname, name: 'memory', include: ['*.test.ts'], testTimeout: 1_200_000 },
});
