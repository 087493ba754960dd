/** Keeps requesting the status from the daemon. */

/** @import { Report } from './targets.js' */

/**
 * Whether the page shows the present state.
 *
 * - `connecting`: no answer yet.
 * - `live`: it does.
 * - `gone`: the daemon does not answer.
 * - `mute`: it answers, but without its state.
 * - `paused`: the user stopped the requests.
 * @typedef {'connecting' | 'live' | 'gone' | 'mute' | 'paused'} Contact
 */

/** Timeout of an answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 15_000;
/** Shortest time between two requests, in milliseconds. */
const LEAST_GAP_MS = 1000;
/** Also with events: a hanging daemon sends none. */
const ASK_EVERY_MS = 5000;
/** Interval for a hidden page, of which only title and icon show. */
const ASK_HIDDEN_EVERY_MS = 30_000;

/** The live connection: requests the status at every event of the daemon, and every few seconds without one. */
export class Feed {
  /** @type {EventSource | null} */
  #stream = null;
  #isPaused = false;
  #isAsking = false;
  #mayAskAtMs = 0;
  /** @type {string | null} */
  #etag = null;
  #timer = 0;
  #onAnswer;
  #onContact;

  /**
   * @param {object} listeners
   * @param {(report: Report | null) => void} listeners.onAnswer null if only the clock has changed since the last answer
   * @param {(contact: Contact, problem: string | null) => void} listeners.onContact called after every request
   */
  constructor({ onAnswer, onContact }) {
    this.#onAnswer = onAnswer;
    this.#onContact = onContact;
  }

  /** Starts, and continues until the page is left. */
  start() {
    document.addEventListener('visibilitychange', () => this.#wake());
    addEventListener('pageshow', () => this.#wake());
    addEventListener('pagehide', () => this.#closeStream());
    this.#wake();
  }

  get isPaused() {
    return this.#isPaused;
  }

  /** Stops the requests until {@link resume}. */
  pause() {
    this.#isPaused = true;
    this.#closeStream();
    clearTimeout(this.#timer);
    this.#onContact('paused', null);
  }

  /** Continues after {@link pause}, or requests the status immediately. */
  resume() {
    this.#isPaused = false;
    this.#wake();
  }

  #wake() {
    if (this.#isPaused) return;
    // A browser opens few connections to one host: hidden pages must not hold them.
    if (document.hidden) this.#closeStream();
    else this.#openStream();
    void this.#ask();
  }

  #openStream() {
    if (this.#stream !== null || typeof EventSource === 'undefined') return;
    this.#stream = new EventSource('api/events');
    for (const name of ['open', 'message', 'error'])
      this.#stream.addEventListener(name, () => this.#askIn(this.#mayAskAtMs - performance.now()));
  }

  #closeStream() {
    this.#stream?.close();
    this.#stream = null;
  }

  /** @param {number} delayMs */
  #askIn(delayMs) {
    if (this.#isPaused) return;
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#ask(), Math.max(0, delayMs));
  }

  async #ask() {
    if (this.#isPaused) return;
    if (this.#isAsking) {
      this.#askIn(LEAST_GAP_MS);
      return;
    }
    this.#isAsking = true;
    const startedAtMs = performance.now();
    const { contact, problem } = await this.#answer();
    this.#isAsking = false;
    if (this.isPaused) return;
    this.#onContact(contact, problem);
    // Showing thousands of targets takes long: pause, to keep the page responsive and the daemon's load low.
    const endedAtMs = performance.now();
    this.#mayAskAtMs = endedAtMs + Math.max(LEAST_GAP_MS, 4 * (endedAtMs - startedAtMs));
    // The daemon has closed it for good.
    if (this.#stream !== null && this.#stream.readyState === this.#stream.CLOSED) this.#closeStream();
    if (!document.hidden) this.#openStream();
    this.#askIn(document.hidden ? ASK_HIDDEN_EVERY_MS : ASK_EVERY_MS);
  }

  /** @returns {Promise<{ contact: Contact, problem: string | null }>} */
  async #answer() {
    let response;
    try {
      const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      /** @type {Record<string, string>} */
      const headers = this.#etag === null ? {} : { 'if-none-match': this.#etag };
      response = await fetch('api/status', { cache: 'no-store', headers, signal });
      if (!response.ok && response.status !== 304)
        return { contact: 'mute', problem: await describeRefusal(response) };
      const report = response.status === 304 ? null : /** @type {Report} */ (await response.json());
      if (!this.#isPaused) this.#onAnswer(report);
      this.#etag = response.headers.get('etag');
      return { contact: 'live', problem: null };
    } catch (error) {
      this.#etag = null;
      // The connection broke, or the answer is not what this page can show.
      if (response === undefined || error instanceof DOMException) return { contact: 'gone', problem: null };
      return {
        contact: 'mute',
        problem: `This page cannot show the answer (${String(error)}): reload the page.`,
      };
    }
  }
}

/** Longest part of the reason to show. */
const REASON_LENGTH = 300;

/** @param {Response} response @returns {Promise<string>} */
async function describeRefusal(response) {
  const { status } = response;
  if (status === 401) return 'Token required: reload this page to enter it.';
  const isText = response.headers.get('content-type')?.startsWith('text/plain') ?? false;
  const reason = isText ? (await response.text()).trim().slice(0, REASON_LENGTH) : '';
  return reason === '' ? `It answered with the status ${status}.` : `It says: ${reason}`;
}
