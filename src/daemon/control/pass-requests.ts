import type { PassOutcome } from '../../app/tasks/task.ts';
import type { Retries } from '../../mirror/plan/actions.ts';

/** Requests for a pass, until a pass takes and answers them. */
export class PassRequests {
  #retries: Retries = new Set();
  readonly #waiting: ((outcome: PassOutcome) => void)[] = [];

  /** @param targets null for all @returns the outcome of the pass that takes the request */
  add(targets: readonly string[] | null): Promise<PassOutcome> {
    this.#want(targets === null ? 'all' : new Set(targets));
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Takes all requests, for the pass that begins now. */
  take() {
    const waiting = this.#waiting.splice(0);
    const retries = this.#retries;
    this.#retries = new Set();
    return {
      retries,
      /** Whether there are requests, new ones or from before a failed pass. */
      isAsked: waiting.length > 0 || retries === 'all' || retries.size > 0,
      /** Answers the waiting requests. Targets that a failed pass could not try are tried by the next one. */
      answer: (outcome: PassOutcome): void => {
        // Refused keys wait again: a person asked for one try only.
        const isRefused = outcome.failure?.code === 'credentials.refused';
        if (outcome.summary === null && !isRefused) this.#want(retries);
        for (const resolve of waiting) resolve(outcome);
      },
    };
  }

  #want(retries: Retries): void {
    if (retries === 'all' || this.#retries === 'all') this.#retries = 'all';
    else this.#retries = new Set([...this.#retries, ...retries]);
  }
}
