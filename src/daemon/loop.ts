import { createBackgroundWork } from '../lib/concurrency/background-work.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import type { Trigger } from '../mirror/pass/events.ts';

/** The daemon's loop: one pass at a time, then one for all triggers during it, named after the first of them. */
export interface Loop {
  readonly trigger: (trigger: Trigger) => void;
  /** Does work between passes: now, or after the running one. @throws MirrorError `pass.abandoned` once the loop has stopped */
  readonly between: <T>(work: () => Promise<T>) => Promise<T>;
  /** Ignores further triggers, abandons the running pass and waits for it to end. */
  readonly stop: () => Promise<void>;
}

function stopped(): MirrorError {
  return new MirrorError('pass.abandoned', 'The daemon is shutting down.');
}

/**
 * Makes a loop.
 * @param pass does one pass; it reports its own failures, so any error it throws is a defect and goes to `onDefect`
 */
export function createLoop(
  pass: (trigger: Trigger, signal: AbortSignal) => Promise<void>,
  onDefect: (error: unknown) => void,
): Loop {
  let waiting: Trigger | null = null;
  const between: ((isStopped: boolean) => Promise<void>)[] = [];
  const passes = createBackgroundWork(async ({ stop }) => {
    for (let work = between.shift(); work !== undefined; work = between.shift()) await work(stop.aborted);
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
    between: (work) =>
      new Promise((resolve, reject) => {
        between.push((isStopped) => (isStopped ? Promise.reject(stopped()) : work()).then(resolve, reject));
        passes.wake();
      }),
    stop: async () => {
      await passes.close(0);
      for (const work of between.splice(0)) await work(true);
    },
  };
}
