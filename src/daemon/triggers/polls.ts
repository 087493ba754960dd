import { EXIT_CODES, exitCodeOf, MirrorError } from '../../lib/errors/errors.ts';
import { eventFailure, type EventSink } from '../../mirror/pass/events.ts';
import type { PassReport } from '../../mirror/pass/pass.ts';
import type { PollAnswer } from '../../mirror/store/poll-requests.ts';
import type { MirrorStore } from '../../mirror/store/store.ts';
import type { Clocks } from './ticker.ts';

/** The shortest and the longest pause before a pass that others ask for, in milliseconds. */
const LEAST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

/**
 * How long after a pass the next one may begin that others ask for, in milliseconds: as long as that pass took, within bounds. So the
 * service is polled at most half of the time, however often they ask.
 */
export function pauseAfterPassMs(durationMs: number): number {
  return Math.min(Math.max(durationMs, LEAST_PAUSE_MS), LONGEST_PAUSE_MS);
}

/** Has passes made for those who ask for one: many requests one pass, and not too often. */
export interface PollPacer {
  readonly ask: () => void;
  /** Says what is called when a pass is to be made; before that, requests are forgotten, as a daemon begins with a pass. */
  readonly onDue: (makePass: () => void) => void;
  /** Takes in how passes ended. */
  readonly sink: EventSink;
  readonly close: () => void;
}

/** Makes a pacer. */
export function createPollPacer({ monotonic }: Pick<Clocks, 'monotonic'>): PollPacer {
  let makePass: () => void = () => {};
  let mayBeginAtMs = monotonic();
  let timer: NodeJS.Timeout | undefined;
  return {
    ask: () => {
      timer ??= setTimeout(
        () => {
          timer = undefined;
          makePass();
        },
        Math.max(0, mayBeginAtMs - monotonic()),
      );
    },
    onDue: (next) => {
      makePass = next;
    },
    sink: (event) => {
      if (event.name === 'pass.finished' || event.name === 'pass.failed' || event.name === 'pass.abandoned')
        mayBeginAtMs = monotonic() + pauseAfterPassMs(event.durationMs);
    },
    close: () => clearTimeout(timer),
  };
}

/** How a pass ended: with its report, or with the reason why it failed as a whole. */
export type PassEnd =
  | { readonly report: PassReport; readonly failure: null }
  | { readonly report: null; readonly failure: MirrorError };

/** What those are told who asked for a pass. Pulls that go on after it are not done: nothing says yet that their targets are fresh. */
export function pollAnswerOf({ report, failure }: PassEnd): PollAnswer {
  if (report === null)
    return { exitCode: exitCodeOf(failure), summary: null, failure: eventFailure(failure) };
  const { summary, exitCode } = report;
  const isUnfinished = exitCode === EXIT_CODES.ok && summary.pulling + summary.waiting > 0;
  return { exitCode: isUnfinished ? EXIT_CODES.incomplete : exitCode, summary, failure: null };
}

/** The part of a store that knows of requests. */
type PollStore = Pick<MirrorStore, 'takePolls' | 'answerPolls'>;

/**
 * Takes the requests that the pass which begins now is to answer. One that cannot be read is looked for again.
 * @returns their ids
 */
export async function pollsToAnswer({ takePolls }: PollStore): Promise<readonly string[]> {
  return (await unlessFailed(takePolls()))?.ids ?? [];
}

/** Answers requests; what cannot be written stays to be answered after a later pass. */
export async function answerPolls(
  { answerPolls: answer }: PollStore,
  ids: readonly string[],
  ended: PollAnswer,
): Promise<void> {
  await unlessFailed(answer(ids, ended));
}

/** What stands on a disk that fails is told of by the pass itself. */
async function unlessFailed<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof MirrorError) return null;
    throw error;
  }
}
