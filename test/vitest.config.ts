import { defineConfig } from 'vitest/config';

export default defineConfig({
  cacheDir: '../node_modules/.vite',
  test: {
    root: import.meta.dirname,
    projects: [
      { test: { name: 'unit', include: ['unit/**/*.test.ts'] } },
      { test: { name: 'integration', include: ['integration/**/*.test.ts'], testTimeout: 60_000 } },
      {
        test: { name: 'e2e', include: ['e2e/**/*.test.ts'], testTimeout: 180_000, fileParallelism: false },
      },
    ],
  },
});
