import { EXIT_CODES, exitCodeOf, MirrorError } from '../../lib/errors/errors.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { PassReport } from '../../mirror/pass/pass.ts';
import { answerPolls as writeAnswers, type PollAnswer, takePolls } from '../../mirror/store/requests.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';

/** How a pass ended: with its report, or with the reason why it failed as a whole. */
export type PassEnd =
  | { readonly report: PassReport; readonly failure: null }
  | { readonly report: null; readonly failure: MirrorError };

/**
 * What those are told who asked for a pass. Pulls that go on after it are not done: nothing says yet that their targets are fresh.
 * @param isReady whether all is well after the pass, as `/readyz` has it
 */
export function pollAnswerOf({ report, failure }: PassEnd, isReady: boolean): PollAnswer {
  if (report === null)
    return { exitCode: exitCodeOf(failure), summary: null, failure: eventFailure(failure) };
  const { summary, exitCode } = report;
  const isIncomplete = exitCode === EXIT_CODES.ok && (!isReady || summary.pulling + summary.waiting > 0);
  return { exitCode: isIncomplete ? EXIT_CODES.incomplete : exitCode, summary, failure: null };
}

/** The part of a store that requests take. */
type PollStore = Pick<MirrorStore, 'layout' | 'lock'>;

/**
 * Takes the requests that the pass which begins now is to answer. One that cannot be read is looked for again.
 * @returns their ids
 */
export async function pollsToAnswer({ layout }: PollStore): Promise<readonly string[]> {
  return (await unlessFailed(takePolls(layout)))?.ids ?? [];
}

/** Answers requests; what cannot be written stays to be answered after a later pass. */
export async function answerPolls(
  { layout, lock }: PollStore,
  ids: readonly string[],
  ended: PollAnswer,
): Promise<void> {
  await unlessFailed(lock.check().then(() => writeAnswers(layout, ids, ended)));
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
