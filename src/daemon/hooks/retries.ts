import { backOffDelayMs } from '../../lib/time/back-off.ts';

/** Wait after the first failure, and the longest wait, in milliseconds. */
const BACK_OFF = { firstDelayMs: 30_000, maxDelayMs: 3_600_000 };

/** What failed, and when it is due again. Times in milliseconds, of the clock that never jumps. */
export interface Retries {
  readonly note: (name: string) => void;
  readonly forget: (name: string) => void;
  readonly isDue: (name: string) => boolean;
  readonly names: () => readonly string[];
  /** How long until the next of them is due, in milliseconds; null when nothing failed. */
  readonly nextInMs: () => number | null;
}

/** Makes an empty note of failures. @param random from 0 up to 1 */
export function createRetries(random: () => number): Retries {
  const failed = new Map<string, { readonly attempts: number; readonly nextAtMs: number }>();
  return {
    note: (name) => {
      const attempts = (failed.get(name)?.attempts ?? 0) + 1;
      failed.set(name, {
        attempts,
        nextAtMs: performance.now() + backOffDelayMs(BACK_OFF, attempts, random()),
      });
    },
    forget: (name) => {
      failed.delete(name);
    },
    isDue: (name) => (failed.get(name)?.nextAtMs ?? 0) <= performance.now(),
    names: () => [...failed.keys()],
    nextInMs: () => {
      const times = [...failed.values()].map(({ nextAtMs }) => nextAtMs);
      return times.length === 0 ? null : Math.max(0, Math.min(...times) - performance.now());
    },
  };
}
