import { createBackgroundWork } from '../lib/concurrency/background-work.ts';
import type { Trigger } from '../mirror/pass/events.ts';

/** The daemon's loop: one pass at a time, and one pass after it for all triggers that come during it: it has the name of the first. */
export interface Loop {
  readonly trigger: (trigger: Trigger) => void;
  /** Takes no more triggers, abandons the running pass and waits for it to end. */
  readonly stop: () => Promise<void>;
}

/**
 * Makes a loop.
 * @param pass does one pass; it reports its own failures, so what it throws is a defect and goes to `onDefect`
 */
export function createLoop(
  pass: (trigger: Trigger, signal: AbortSignal) => Promise<void>,
  onDefect: (error: unknown) => void,
): Loop {
  let waiting: Trigger | null = null;
  const passes = createBackgroundWork(async ({ stop }) => {
    if (waiting === null) return;
    const trigger = waiting;
    waiting = null;
    await pass(trigger, stop);
  }, onDefect);
  return {
    trigger: (trigger) => {
      waiting ??= trigger;
      passes.wake();
    },
    stop: () => passes.close(0),
  };
}
