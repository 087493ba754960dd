import { afterEach, vi } from 'vitest';

// No test leaves a spy, a variable of the environment or a set clock to the next one.
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  vi.useRealTimers();
});
