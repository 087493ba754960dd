import type { EventSink } from '../../mirror/pass/events.ts';
import type { SlowPulls } from '../../mirror/plan/target-status.ts';
import type { State } from '../../mirror/state/state.ts';
import type { PullMonitor } from '../../mirror/pass/pull-monitor.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';

/** Keeps on record what goes on, for whoever looks from another process. */
export interface Notes {
  /** Takes in what happens, and passes it on. */
  readonly emit: EventSink;
  /** Waits for what is being written. */
  readonly close: () => Promise<void>;
}

/** Begins with nothing: what another process left on record goes on no more. */
export async function keepNotes(
  state: Pick<State, 'slowPulls' | 'saveSlowPulls' | 'saveProgress'>,
  monitor: PullMonitor,
  emit: EventSink,
): Promise<Notes> {
  const slow = await keepSlowNotes(state, emit);
  const progress = keepProgressNotes(state, monitor, emit);
  return {
    emit: slow.emit,
    close: async () => {
      await slow.saved();
      await progress.close();
    },
  };
}

/** Keeps on record which pulls take long. */
interface SlowNotes {
  /** Takes in what happens, and passes it on. */
  readonly emit: EventSink;
  /** Waits for what is being written. */
  readonly saved: () => Promise<void>;
}

async function keepSlowNotes(
  state: Pick<State, 'slowPulls' | 'saveSlowPulls'>,
  emit: EventSink,
): Promise<SlowNotes> {
  const notes = new Map<string, number>();
  const before = await tolerateStateFailure<SlowPulls>(emit, state.slowPulls, {});
  let saved = Promise.resolve();
  const save = (): void => {
    const write = (): Promise<void> => state.saveSlowPulls(Object.fromEntries(notes));
    saved = saved.then(() => tolerateStateFailure(emit, write, undefined));
  };
  if (Object.keys(before).length > 0) save();
  return {
    emit: (event) => {
      emit(event);
      if (event.name === 'target.slow') notes.set(event.target, event.startedAtMs);
      else if (event.name === 'target.slow_ended') notes.delete(event.target);
      else return;
      save();
    },
    saved: () => saved,
  };
}

/** How often it is put on record how far the work is, and how long it takes before it is, in milliseconds. */
const NOTED_EVERY_MS = 2000;

/** Keeps on record how far the pulls are that take more than a moment. */
function keepProgressNotes(
  state: Pick<State, 'saveProgress'>,
  monitor: PullMonitor,
  emit: EventSink,
): { readonly close: () => Promise<void> } {
  let hasNotes = false;
  let saved = Promise.resolve();
  const save = (): void => {
    const atMs = Date.now();
    const pulls = monitor.pulls().filter(({ startedAtMs }) => atMs - startedAtMs >= NOTED_EVERY_MS);
    const scan = monitor.scan();
    const isWorth = pulls.length > 0 || scan !== null;
    if (!isWorth && !hasNotes) return;
    hasNotes = isWorth;
    const write = (): Promise<void> => state.saveProgress({ atMs, pulls: [...pulls], scan });
    saved = saved.then(() => tolerateStateFailure(emit, write, undefined));
  };
  const timer = setInterval(save, NOTED_EVERY_MS);
  timer.unref();
  return {
    close: async () => {
      clearInterval(timer);
      save();
      await saved;
    },
  };
}
