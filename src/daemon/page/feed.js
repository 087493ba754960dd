/** Keeps asking the daemon how it stands. */

import { leastGapMs, nextPollMs } from './contact.js';

/** @import { Contact, ContactState } from './contact.js' */
/** @import { Report } from './targets.js' */

/** An answer that takes longer is none. */
const ANSWER_TIMEOUT_MS = 15_000;
/** A stream that the daemon closed for good is asked for again so often. */
const STREAM_RETRY_MS = 30_000;

/** The live connection: events where they can be had, polling where not. */
export class Feed {
  /** @type {EventSource | null} */
  #stream = null;
  #isStreaming = false;
  #streamClosedAtMs = 0;
  #isPaused = false;
  #isAsking = false;
  #isAskedAgain = false;
  #failures = 0;
  #costMs = 0;
  #askedAtMs = 0;
  /** @type {string | null} */
  #etag = null;
  #timer = 0;
  #urls;
  #onAnswer;
  #onContact;

  /**
   * @param {object} options
   * @param {{ status: string, events: string }} options.urls
   * @param {(report: Report | null) => void} options.onAnswer null when nothing but the clock has moved since the last answer
   * @param {(state: ContactState) => void} options.onContact called whenever the standing changes, and for every failure
   */
  constructor({ urls, onAnswer, onContact }) {
    this.#urls = urls;
    this.#onAnswer = onAnswer;
    this.#onContact = onContact;
  }

  /** Begins, and goes on until the page is left. */
  start() {
    document.addEventListener('visibilitychange', () => this.#wake());
    addEventListener('online', () => this.#wake());
    addEventListener('pageshow', (event) => {
      if (event.persisted) this.#wake();
    });
    addEventListener('pagehide', () => this.#closeStream());
    this.#wake();
  }

  get isPaused() {
    return this.#isPaused;
  }

  /** Asks no more, until {@link resume}. */
  pause() {
    this.#isPaused = true;
    this.#closeStream();
    clearTimeout(this.#timer);
    this.#tell('paused', null);
  }

  /** Goes on after {@link pause}. */
  resume() {
    this.#isPaused = false;
    this.#failures = 0;
    this.#wake();
  }

  /** Asks at once. */
  askNow() {
    void this.#ask();
  }

  #wake() {
    if (this.#isPaused) return;
    // A browser has few connections for one host: pages that nobody looks at must not hold them.
    if (document.hidden) this.#closeStream();
    else this.#openStream();
    void this.#ask();
  }

  #openStream() {
    if (this.#stream !== null || typeof EventSource === 'undefined') return;
    const stream = new EventSource(this.#urls.events);
    this.#stream = stream;
    stream.addEventListener('open', () => {
      this.#isStreaming = true;
      this.#askSoon();
    });
    stream.addEventListener('message', () => this.#askSoon());
    stream.addEventListener('error', () => {
      this.#isStreaming = false;
      if (stream.readyState === EventSource.CLOSED) {
        this.#closeStream();
        this.#streamClosedAtMs = performance.now();
      }
      this.#askSoon();
    });
  }

  #closeStream() {
    this.#stream?.close();
    this.#stream = null;
    this.#isStreaming = false;
  }

  #askSoon() {
    if (this.#isPaused) return;
    if (this.#isAsking) {
      this.#isAskedAgain = true;
      return;
    }
    const waitMs = this.#askedAtMs + leastGapMs(this.#costMs) - performance.now();
    this.#askIn(Math.max(0, waitMs));
  }

  /** @param {number} delayMs */
  #askIn(delayMs) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#ask(), delayMs);
  }

  async #ask() {
    if (this.#isAsking || this.#isPaused) return;
    this.#isAsking = true;
    this.#isAskedAgain = false;
    clearTimeout(this.#timer);
    const startedAtMs = performance.now();
    await this.#askOnce();
    this.#isAsking = false;
    this.#askedAtMs = performance.now();
    this.#costMs = this.#askedAtMs - startedAtMs;
    this.#goOn();
  }

  #goOn() {
    if (this.#isPaused) return;
    this.#reopenStream();
    if (this.#isAskedAgain && this.#failures === 0) {
      this.#askSoon();
      return;
    }
    const { hidden } = document;
    this.#askIn(nextPollMs({ isStreaming: this.#isStreaming, isHidden: hidden, failures: this.#failures }));
  }

  #reopenStream() {
    const isDue = performance.now() - this.#streamClosedAtMs > STREAM_RETRY_MS;
    if (!document.hidden && this.#failures === 0 && isDue) this.#openStream();
  }

  async #askOnce() {
    const answer = await this.#fetchAnswer();
    if (answer === null || this.#isPaused) return;
    try {
      this.#onAnswer(answer.report);
    } catch (error) {
      this.#etag = null;
      this.#fail('mute', `This page cannot show its answer (${String(error)}): load it again.`);
      return;
    }
    this.#failures = 0;
    this.#tell(this.#stream !== null || document.hidden ? 'live' : 'polling', null);
  }

  /** @returns {Promise<{ report: Report | null } | null>} null when there is no answer, which has been told then */
  async #fetchAnswer() {
    try {
      const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
      /** @type {Record<string, string>} */
      const headers = this.#etag === null ? {} : { 'if-none-match': this.#etag };
      const response = await fetch(this.#urls.status, { cache: 'no-store', headers, signal });
      if (response.status === 304) return { report: null };
      if (!response.ok) {
        this.#fail('mute', await describeRefusal(response));
        return null;
      }
      const report = /** @type {Report} */ (await response.json());
      this.#etag = response.headers.get('etag');
      return { report };
    } catch (error) {
      if (error instanceof SyntaxError) this.#fail('mute', 'What answers at its address is something else.');
      else this.#fail('gone', isTimeout(error) ? 'It took the question, and gave no answer in time.' : null);
      return null;
    }
  }

  /** @param {Contact} contact @param {string | null} problem */
  #fail(contact, problem) {
    this.#failures += 1;
    if (!this.#isPaused) this.#tell(contact, problem);
  }

  /** @param {Contact} contact @param {string | null} problem */
  #tell(contact, problem) {
    this.#onContact({ contact, problem, sinceMs: Date.now() });
  }
}

/** @param {unknown} error @returns {boolean} */
function isTimeout(error) {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** The start of a text that says why is enough. */
const REASON_LENGTH = 300;

/** @param {Response} response @returns {Promise<string>} */
async function describeRefusal(response) {
  const { status } = response;
  if (status === 401) return 'It wants a token: load this page again to give one.';
  const isText = response.headers.get('content-type')?.startsWith('text/plain') ?? false;
  const reason = isText ? (await response.text()).trim().slice(0, REASON_LENGTH) : '';
  return reason === '' ? `It answered with the status ${status}.` : `It says: ${reason}`;
}
