import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import type { PullMonitor } from '../../mirror/pass/pull-monitor.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';
import type { SlowPulls, State } from '../../mirror/state/state.ts';

/** Records the progress of running work, for commands that look from another process. */
export interface Notes {
  /** Takes in what happens, and passes it on. */
  readonly emit: EventSink;
  /** Waits for what is being written. */
  readonly close: () => Promise<void>;
}

/** How often it is put on record how far the work is, and how long it takes before it is, in milliseconds. */
const NOTED_EVERY_MS = 2000;

/** Keeps on record which pulls take long, and how far those are that take more than a moment. What another process left is forgotten. */
export async function keepNotes(
  state: Pick<State, 'slowPulls' | 'saveSlowPulls' | 'saveProgress'>,
  monitor: PullMonitor,
  emit: EventSink,
): Promise<Notes> {
  const saves = createSerialQueue();
  const save = (write: () => Promise<void>): void =>
    void saves.run(() => tolerateStateFailure(write, undefined));

  const slow = new Map<string, number>();
  const saveSlow = (): void => save(() => state.saveSlowPulls(Object.fromEntries(slow)));
  const before = await tolerateStateFailure<SlowPulls>(state.slowPulls, {});
  if (Object.keys(before).length > 0) saveSlow();

  let hasProgress = false;
  const saveProgress = (): void => {
    const atMs = Date.now();
    const pulls = monitor.pulls().filter(({ startedAtMs }) => atMs - startedAtMs >= NOTED_EVERY_MS);
    const scan = monitor.scan();
    const isWorth = pulls.length > 0 || scan !== null;
    if (isWorth || hasProgress) save(() => state.saveProgress({ atMs, pulls: [...pulls], scan }));
    hasProgress = isWorth;
  };
  const timer = setInterval(saveProgress, NOTED_EVERY_MS).unref();
  return {
    emit: (event) => {
      emit(event);
      if (event.name === 'target.slow') slow.set(event.target, event.startedAtMs);
      else if (event.name === 'target.slow_ended') slow.delete(event.target);
      else return;
      saveSlow();
    },
    close: async () => {
      clearInterval(timer);
      saveProgress();
      await saves.done();
    },
  };
}
