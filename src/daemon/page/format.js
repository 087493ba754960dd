/** Text for people, from numbers and times. Everything here is pure; the words are those of the command line. */

import { durationText } from '../../lib/page/text.js';

const SECOND_MS = 1000;

/**
 * The distance of a time from now: `just now`, `12 s ago`, `in 3 min`.
 * @param {number} atMs milliseconds since the epoch
 * @param {number} nowMs milliseconds since the epoch
 * @returns {string}
 */
export function agoText(atMs, nowMs) {
  const pastMs = nowMs - atMs;
  if (Math.abs(pastMs) < 2 * SECOND_MS) return 'just now';
  const text = wholeText(Math.abs(pastMs));
  return pastMs > 0 ? `${text} ago` : `in ${text}`;
}

/** A duration in whole seconds, for live counters: `0 s`, `4 s`, `3 min`. @param {number} durationMs @returns {string} */
export function wholeText(durationMs) {
  const ms = Math.max(0, durationMs);
  return ms < 10 * SECOND_MS
    ? `${Math.floor(ms / SECOND_MS)} s`
    : durationText(Math.floor(ms / SECOND_MS) * SECOND_MS);
}

/**
 * A time as a countdown: `4:05`, `1:02:03`, `2 days`; `due` afterwards.
 * @param {number} atMs milliseconds since the epoch
 * @param {number} nowMs milliseconds since the epoch
 * @returns {string}
 */
export function countdownText(atMs, nowMs) {
  const seconds = Math.ceil((atMs - nowMs) / SECOND_MS);
  if (seconds <= 0) return 'due';
  if (seconds >= 172_800) return durationText(seconds * SECOND_MS);
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const rest = twoDigits(seconds % 60);
  return hours > 0 ? `${hours}:${twoDigits(minutes)}:${rest}` : `${minutes}:${rest}`;
}

/**
 * A time in UTC, to the second, as the log has it.
 * @param {number} atMs milliseconds since the epoch
 * @returns {string}
 */
export function utcText(atMs) {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? 'an unknown time' : `${date.toISOString().slice(0, 19)}Z`;
}

/**
 * A number with its noun: `1 file`, `3,000 files`.
 * @param {number} count
 * @param {string} noun
 * @param {string} [plural] for nouns that take more than an s
 * @returns {string}
 */
export function counted(count, noun, plural = `${noun}s`) {
  return `${numberText(count)} ${count === 1 ? noun : plural}`;
}

/**
 * A whole number with its thousands set apart.
 * @param {number} count
 * @returns {string}
 */
export function numberText(count) {
  return count.toLocaleString('en');
}

/** @param {number} value @returns {string} */
function twoDigits(value) {
  return String(value).padStart(2, '0');
}
