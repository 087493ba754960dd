/** Asks the service what would come of an upload while its reader still fills in the form. */

import { joinPath } from './format.js';
import { sortChecked } from './plan.js';
import { askFirst, ServiceError } from './service.js';

/** @typedef {import('./plan.js').Target} Target */
/** @typedef {ReturnType<typeof sortChecked>} Sorted */

/** Somebody who types is waited for. */
const PAUSE_MS = 250;

/**
 * @param {Target} target
 * @param {readonly string[]} paths below the folder
 * @param {AbortSignal} signal
 * @returns {Promise<Sorted>}
 * @throws {ServiceError}
 */
export async function check({ repositoryId, branch, seenCommitId, startFrom, folder }, paths, signal) {
  const whole = paths.map((path) => joinPath(folder, path));
  const question = { branch, seenCommitId, startFrom, paths: whole };
  return sortChecked(await askFirst(repositoryId, question, signal), paths, folder);
}

/** Checks again and again, always the newest only. */
export class Checks {
  #controller = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #onAnswer;

  /** @param {(answer: Sorted) => void} onAnswer */
  constructor(onAnswer) {
    this.#onAnswer = onAnswer;
  }

  /**
   * @param {Target} target
   * @param {readonly string[]} paths
   */
  begin(target, paths) {
    this.end();
    if (paths.length === 0) return;
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.#timer = setTimeout(() => void this.#check(target, paths, signal), PAUSE_MS);
  }

  /** No answer comes any more. */
  end() {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }

  /**
   * @param {Target} target
   * @param {readonly string[]} paths
   * @param {AbortSignal} signal
   */
  async #check(target, paths, signal) {
    try {
      const answer = await check(target, paths, signal);
      if (!signal.aborted) this.#onAnswer(answer);
    } catch (error) {
      // The upload itself asks again, and tells what is in the way.
      if (!(error instanceof ServiceError)) throw error;
    }
  }
}
