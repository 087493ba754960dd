import type { EventSink } from '../model/events.ts';
import type { SlowPulls } from '../model/status.ts';
import type { State } from '../state/state.ts';
import { tolerateStateFailure } from '../sync/state-failures.ts';

/** Keeps on record which pulls take long, for whoever looks from another process. */
export interface SlowNotes {
  /** Takes in what happens, and passes it on. */
  readonly emit: EventSink;
  /** Waits for what is being written. */
  readonly saved: () => Promise<void>;
}

/** Begins with none: what another process left on record goes on no more. */
export async function keepSlowNotes(
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
