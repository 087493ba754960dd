import { EXIT_CODES, exitCodeOf, type MirrorError } from '../../lib/errors/errors.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { PassReport } from '../../mirror/pass/pass.ts';
import type { Retries } from '../../mirror/plan/actions.ts';
import type { PollAnswer } from '../../app/control.ts';

/** How a pass ended: with its report, or with the reason why it failed as a whole. */
export type PassEnd =
  | { readonly report: PassReport; readonly failure: null }
  | { readonly report: null; readonly failure: MirrorError };

/**
 * The answer to a request for a pass. Pulls that go on after the pass are not done: nothing says yet that their targets are fresh.
 * @param isReady whether all is well after the pass, as `/readyz` has it
 */
export function pollAnswerOf({ report, failure }: PassEnd, isReady: boolean): PollAnswer {
  if (report === null)
    return { exitCode: exitCodeOf(failure), summary: null, failure: eventFailure(failure) };
  const { summary, exitCode } = report;
  const isIncomplete = exitCode === EXIT_CODES.ok && (!isReady || summary.pulling + summary.waiting > 0);
  return { exitCode: isIncomplete ? EXIT_CODES.incomplete : exitCode, summary, failure: null };
}

/** The requests that one pass answers. */
export interface TakenRequests {
  readonly retries: Retries;
  /** Whether anyone asked, now or before a pass that failed. */
  readonly isAsked: boolean;
  /** Answers those who wait. Targets that a failed pass could not try are tried by the next one. */
  readonly answer: (answer: PollAnswer) => void;
}

/** The requests of people for a pass, until a pass takes and answers them. */
export class PassRequests {
  #retries: Retries = new Set();
  #waiting: ((answer: PollAnswer) => void)[] = [];

  /** @param targets null for all @returns the answer of the pass that takes the request */
  add(targets: readonly string[] | null): Promise<PollAnswer> {
    this.#want(targets === null ? 'all' : new Set(targets));
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Takes all requests, for the pass that begins now. */
  take(): TakenRequests {
    const waiting = this.#waiting;
    const retries = this.#retries;
    this.#waiting = [];
    this.#retries = new Set();
    return {
      retries,
      isAsked: waiting.length > 0 || retries === 'all' || retries.size > 0,
      answer: (answer) => {
        // Refused keys wait for their time again: a person asked for one try.
        const isRefused = answer.failure?.code === 'credentials.refused';
        if (answer.summary === null && !isRefused) this.#want(retries);
        for (const resolve of waiting) resolve(answer);
      },
    };
  }

  #want(retries: Retries): void {
    if (retries === 'all' || this.#retries === 'all') this.#retries = 'all';
    else this.#retries = new Set([...this.#retries, ...retries]);
  }
}
