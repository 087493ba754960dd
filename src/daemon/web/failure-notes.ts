import { eventFailure, type EventSink } from '../../mirror/pass/events.ts';

/** Tells the log of answers that failed. */
export interface FailureNotes {
  /** @param path of the request; null where there was none */
  readonly note: (path: string | null, error: unknown) => void;
  /** Notes that answers come forth again. */
  readonly clear: () => void;
}

/**
 * Makes notes that tell of the same failure once, until something was answered: pages ask again at once when they hear that
 * something happened, and such a note is something that happens.
 */
export function createFailureNotes(emit: EventSink): FailureNotes {
  let told = '';
  return {
    note: (path, error) => {
      const failure = eventFailure(error);
      if (failure.message === told) return;
      told = failure.message;
      emit({ name: 'http.failed', path, ...failure });
    },
    clear: () => {
      told = '';
    },
  };
}
