import { createBackgroundWork } from '../lib/concurrency/background-work.ts';
import type { Trigger } from '../mirror/pass/events.ts';

/** The daemon's loop: one pass at a time, and triggers that come meanwhile collapse into one pass after it. */
export interface Loop {
  readonly trigger: (trigger: Trigger) => void;
  /** Takes no more triggers, abandons the running pass and waits for it to end. */
  readonly stop: () => Promise<void>;
}

/** The more urgent a trigger, the later it stands: of several that wait together, it is the one that counts. */
const URGENCY: readonly Trigger[] = [
  'drift',
  'lease',
  'schedule',
  'poll',
  'settings',
  'start',
  'retry',
  'command',
  'signal',
];

/** The trigger that stands for two that wait together. */
export function strongerTrigger(one: Trigger | null, other: Trigger): Trigger {
  if (one === null) return other;
  return URGENCY.indexOf(one) > URGENCY.indexOf(other) ? one : other;
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
      waiting = strongerTrigger(waiting, trigger);
      passes.wake();
    },
    stop: () => passes.close(0),
  };
}
