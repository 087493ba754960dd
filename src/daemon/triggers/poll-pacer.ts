import type { EventSink } from '../../app/events.ts';

/** The shortest and the longest pause before a pass that others ask for, in milliseconds. */
const LEAST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/**
 * How long after a pass the next one may begin that others ask for, in milliseconds: as long as that pass took, within bounds. So the
 * service has a rest, however often they ask.
 */
export function pauseAfterPassMs(durationMs: number): number {
  return Math.min(Math.max(durationMs, LEAST_PAUSE_MS), LONGEST_PAUSE_MS);
}

/** Has passes made for those who ask for one: many requests one pass, and not too often. */
export interface PollPacer {
  readonly ask: () => void;
  /** Says what is called when a pass is to be made; before that, requests are forgotten, as a daemon begins with a pass. */
  readonly onDue: (makePass: () => void) => void;
  /** Takes in when passes begin and end. */
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
    // What is asked for during a pass, that one may have missed.
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
