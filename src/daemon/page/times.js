/** Times that stay right while they are shown. */

import { element, setText } from '../../lib/page/dom.js';
import { agoText, countdownText, elapsedText, utcText } from './format.js';

/** @import { Child } from '../../lib/page/dom.js' */

/**
 * A time shown by its distance from now, which {@link tick} keeps right; null is `never`.
 * @param {number | null} atMs milliseconds since the epoch
 * @param {'ago' | 'elapsed' | 'countdown' | 'clock'} [form]
 * @returns {Child}
 */
export function timeNode(atMs, form = 'ago') {
  if (atMs === null) return element('span', { class: 'none' }, 'never');
  const utc = utcText(atMs);
  const time = element('time', { datetime: utc, 'data-at': atMs, 'data-form': form });
  if (utc.endsWith('Z')) time.title = `${localText(atMs)} (${utc})`;
  if (form === 'clock') time.textContent = localText(atMs);
  return time;
}

/**
 * Corrects all times that are shown by their distance from now.
 * @param {ParentNode} root
 * @param {number} nowMs milliseconds since the epoch
 */
export function tick(root, nowMs) {
  for (const time of root.querySelectorAll('time[data-at]')) {
    if (!(time instanceof HTMLElement)) continue;
    const { at, form } = time.dataset;
    const atMs = Number(at);
    if (form === 'ago') setText(time, agoText(atMs, nowMs));
    else if (form === 'elapsed') setText(time, elapsedText(atMs, nowMs));
    else if (form === 'countdown') setText(time, countdownText(atMs, nowMs));
  }
}

const local = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: 'numeric',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});

/**
 * A time as the reader writes times, with the time zone.
 * @param {number} atMs milliseconds since the epoch
 * @returns {string}
 */
function localText(atMs) {
  return Number.isNaN(new Date(atMs).getTime()) ? 'an unknown time' : local.format(atMs);
}

const localShort = new Intl.DateTimeFormat(undefined, { dateStyle: 'short', timeStyle: 'short' });
const localHour = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });

/**
 * Two times as the reader writes times, to the minute; without the date if they are of one day.
 * @param {number} fromMs milliseconds since the epoch
 * @param {number} toMs milliseconds since the epoch
 * @returns {{ from: string, to: string }}
 */
export function localRange(fromMs, toMs) {
  const isOneDay = new Date(fromMs).toDateString() === new Date(toMs).toDateString();
  const format = isOneDay ? localHour : localShort;
  return { from: format.format(fromMs), to: format.format(toMs) };
}
