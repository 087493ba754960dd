import type { Action } from '../plan/actions.ts';
import type { Outcome } from '../plan/record.ts';

/** One action with its outcome, the bytes downloaded for it, and the number of files that it changed. */
export interface ActionResult {
  readonly action: Action;
  readonly outcome: Outcome | Unfinished;
  readonly downloadedBytes: number;
  readonly changedFiles: number;
}

/** A pull that goes on beside the passes, or waits for a place. It is recorded when it ends, and counts for nothing until then. */
export interface Unfinished {
  readonly kind: 'unfinished';
  readonly hasBegun: boolean;
}

/** An action that came to its end. */
export interface EndedResult extends ActionResult {
  readonly outcome: Outcome;
}

/** The result of an action that moved no bytes. */
export function resultOf(action: Action, outcome: Outcome): EndedResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}
