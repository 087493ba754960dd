import type { EventSink } from '../../app/events.ts';

/** The shortest and the longest pause before a requested pass, in milliseconds. */
const LEAST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/**
 * Pause between a pass and the next requested one, in milliseconds: as long as the pass took, within bounds. This protects the
 * service from frequent requests.
 */
export function pauseAfterPassMs(durationMs: number): number {
  return Math.min(Math.max(durationMs, LEAST_PAUSE_MS), LONGEST_PAUSE_MS);
}

/** Triggers requested passes: one pass for many requests, and not too often. */
export interface PollPacer {
  readonly ask: () => void;
  /** Sets the function that triggers a pass; earlier requests are dropped, as a daemon begins with a pass. */
  readonly onDue: (makePass: () => void) => void;
  /** Receives the start and end of passes. */
  readonly sink: EventSink;
  readonly close: () => void;
}

/** Makes a pacer. */
export function createPollPacer(): PollPacer {
  let makePass: (() => void) | null = null;
  let mayBeginAtMs = 0;
  let isWanted = false;
  let isPassing = false;
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    isWanted = false;
    isPassing = true;
    makePass?.();
  };
  const arm = (): void => {
    clearTimeout(timer);
    // The running pass may have missed the change behind a request.
    if (!isWanted || isPassing || makePass === null) return;
    timer = setTimeout(begin, Math.max(0, mayBeginAtMs - performance.now())).unref();
  };
  return {
    ask: () => {
      isWanted = makePass !== null;
      arm();
    },
    onDue: (next) => {
      makePass = next;
    },
    sink: (event) => {
      if (event.name === 'pass.started') isPassing = true;
      else if (
        event.name === 'pass.finished' ||
        event.name === 'pass.failed' ||
        event.name === 'pass.abandoned'
      ) {
        isPassing = false;
        mayBeginAtMs = performance.now() + pauseAfterPassMs(event.durationMs);
      } else return;
      arm();
    },
    close: () => {
      makePass = null;
      clearTimeout(timer);
    },
  };
}
