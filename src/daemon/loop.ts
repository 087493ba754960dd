import { createBackgroundWork } from '../lib/concurrency/background-work.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import type { Trigger } from '../mirror/pass/events.ts';

/** The loop of passes. */
export type Loop = ReturnType<typeof createLoop>;

function stopped(): MirrorError {
  return new MirrorError('pass.abandoned', 'The daemon is shutting down.');
}

/** The shortest and the longest pause between a pass and the next requested one, in milliseconds. */
const LEAST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/**
 * The daemon's loop: one pass at a time, then one for all triggers during it, named after the first of them. The pause before a requested pass is as long as the last pass took, within bounds: this protects the service from
 * frequent requests.
 * @param pass does one pass; it reports its own failures, so any error it throws is a defect and goes to `onDefect`
 */
export function createLoop(
  pass: (trigger: Trigger, signal: AbortSignal) => Promise<void>,
  onDefect: (error: unknown) => void,
) {
  let waiting: Trigger | null = null;
  let isBegun = false;
  let isAsked = false;
  let isPassing = false;
  let mayBeginAtMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const between: ((isStopped: boolean) => Promise<void>)[] = [];
  const passes = createBackgroundWork(async ({ stop }) => {
    for (let work = between.shift(); work !== undefined; work = between.shift()) await work(stop.aborted);
    if (waiting === null) return;
    const name = waiting;
    waiting = null;
    isPassing = true;
    // This pass sees the change behind every request so far.
    isAsked = false;
    clearTimeout(timer);
    const startedAtMs = performance.now();
    await pass(name, stop).finally(() => {
      const endedAtMs = performance.now();
      const pauseMs = Math.min(Math.max(endedAtMs - startedAtMs, LEAST_PAUSE_MS), LONGEST_PAUSE_MS);
      mayBeginAtMs = endedAtMs + pauseMs;
      isPassing = false;
      arm();
    });
  }, onDefect);
  const trigger = (name: Trigger): void => {
    isBegun = true;
    waiting ??= name;
    passes.wake();
  };
  const arm = (): void => {
    clearTimeout(timer);
    // The running pass may have missed the change behind a request.
    if (!isAsked || isPassing) return;
    timer = setTimeout(trigger, Math.max(0, mayBeginAtMs - performance.now()), 'poll').unref();
  };
  return {
    trigger,
    /** Requests a pass: many requests cause one, after a pause. Before the first trigger they are dropped, as a pass follows. */
    ask: (): void => {
      isAsked = isBegun;
      arm();
    },
    /** Does work between passes: now, or after the running one. @throws MirrorError `pass.abandoned` once the loop has stopped */
    between: <T>(work: () => Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        between.push((isStopped) => (isStopped ? Promise.reject(stopped()) : work()).then(resolve, reject));
        passes.wake();
      }),
    /** Ignores further triggers, abandons the running pass and waits for it to end. */
    stop: async (): Promise<void> => {
      await passes.close(0);
      for (const work of between.splice(0)) await work(true);
    },
  };
}
