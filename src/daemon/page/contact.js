/** How the page stands with the daemon, in words, and how often it asks. Everything here is pure. */

import { wholeText } from './format.js';

/** @import { Tone } from './targets.js' */

/**
 * How the page stands with the daemon.
 *
 * - `connecting`: no answer yet.
 * - `live`: the daemon tells of every change.
 * - `polling`: it is asked every few seconds, as its events cannot be had.
 * - `gone`: it does not answer.
 * - `mute`: it answers, but not with its state.
 * - `paused`: not asked, by the reader's wish.
 * @typedef {'connecting' | 'live' | 'polling' | 'gone' | 'mute' | 'paused'} Contact
 */

/** @typedef {{ readonly contact: Contact, readonly sinceMs: number, readonly problem: string | null }} ContactState */

/** @type {Readonly<Record<Contact, { word: string, tone: Tone }>>} */
export const CONTACT_WORDS = {
  connecting: { word: 'Connecting', tone: 'off' },
  live: { word: 'Live', tone: 'ok' },
  polling: { word: 'Live, every 5 s', tone: 'ok' },
  gone: { word: 'No answer', tone: 'bad' },
  mute: { word: 'No state', tone: 'bad' },
  paused: { word: 'Paused', tone: 'off' },
};

/** Whether what is shown may be wrong by now. @param {Contact} contact @returns {boolean} */
export function isOld(contact) {
  return contact === 'gone' || contact === 'mute';
}

/**
 * The notice for a page that does not show the present state; null when it does.
 * @param {ContactState} state
 * @param {number | null} answeredAtMs when the daemon last answered, milliseconds since the epoch by the reader's clock
 * @param {number} nowMs milliseconds since the epoch by the reader's clock
 * @returns {{ title: string, text: string } | null}
 */
export function contactNotice({ contact, problem }, answeredAtMs, nowMs) {
  const age =
    answeredAtMs === null
      ? 'It has not answered since this page was loaded.'
      : `What is shown is ${wholeText(nowMs - answeredAtMs)} old.`;
  switch (contact) {
    case 'gone':
      return { title: 'The daemon does not answer.', text: `${age} ${problem ?? ''}`.trim() };
    case 'mute':
      return {
        title: 'The daemon answers, but does not tell its state.',
        text: `${problem ?? ''} ${age}`.trim(),
      };
    case 'paused':
      return answeredAtMs === null ? null : { title: 'Paused.', text: age };
    case 'connecting':
    case 'live':
    case 'polling':
      return null;
  }
}

/** Between two answers at least. */
const LEAST_GAP_MS = 1000;
/** Without events. */
const POLL_MS = 5000;
/** With events: they do not come either when the daemon hangs. */
const WATCH_MS = 15_000;
/** Where nobody looks, the title and the icon are enough. */
const HIDDEN_MS = 30_000;
const FIRST_RETRY_MS = 2000;
const LONGEST_RETRY_MS = 15_000;

/**
 * When to ask the next time if no event comes before.
 * @param {{ isStreaming: boolean, isHidden: boolean, failures: number }} facts `failures` in a row
 * @returns {number} milliseconds
 */
export function nextPollMs({ isStreaming, isHidden, failures }) {
  if (failures > 0) return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(10, failures - 1));
  if (isHidden) return HIDDEN_MS;
  return isStreaming ? WATCH_MS : POLL_MS;
}

/**
 * How long to wait after an answer before an event may cause another question: the greater the answer, the longer, so
 * that a page with thousands of targets stays fluid and the daemon is left in peace.
 * @param {number} costMs how long the last question took, with showing its answer, in milliseconds
 * @returns {number} milliseconds
 */
export function leastGapMs(costMs) {
  return Math.max(LEAST_GAP_MS, Math.min(POLL_MS, costMs * 4));
}
