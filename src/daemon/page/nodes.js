/** The building blocks of the page: signs, self-updating times, facts; and refilling elements. */

import { byId, drawing, element, fill, setText } from './dom.js';
import { agoText, countdownText, utcText, wholeText } from './format.js';

/** @import { Child } from './dom.js' */
/** @import { Tone } from './targets.js' */

/** @type {WeakMap<Element, string>} */
const signatures = new WeakMap();

/**
 * Refills an element if its data changed. The focused control keeps the focus, if
 * its `data-key` still exists.
 * @param {Element} parent
 * @param {unknown} data source of the children, as JSON
 * @param {() => Child[]} build
 */
export function refill(parent, data, build) {
  const signature = JSON.stringify(data);
  if (signatures.get(parent) === signature) return;
  const before = document.activeElement;
  const key = before instanceof HTMLElement && parent.contains(before) ? before.dataset['key'] : undefined;
  fill(parent, ...build());
  signatures.set(parent, signature);
  if (key === undefined) return;
  const after = parent.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (after instanceof HTMLElement) after.focus({ preventScroll: true });
}

/**
 * The sign of a tone, in the current colour; its shape differs, too.
 * @param {Tone} tone
 * @returns {SVGElement}
 */
export function sign(tone) {
  const use = drawing('use', { href: `#sign-${tone}` });
  return drawing('svg', { class: 'sign', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, use);
}

/**
 * A word with its sign.
 * @param {Tone} tone
 * @param {string} word
 * @returns {HTMLElement}
 */
export function badge(tone, word) {
  return element('span', { class: `badge tone-${tone}` }, sign(tone), word);
}

/**
 * A term with its facts, for a `dl`.
 * @param {string} term
 * @param {...Child} facts
 * @returns {HTMLElement[]}
 */
export function fact(term, ...facts) {
  return [element('dt', {}, term), element('dd', {}, ...facts)];
}

/**
 * A time shown as its distance from now, which {@link tick} updates; null is `never`.
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
 * Updates all times that are shown as a distance from now.
 * @param {number} nowMs milliseconds since the epoch
 */
export function tick(nowMs) {
  for (const time of document.querySelectorAll('time[data-at]')) {
    if (!(time instanceof HTMLElement)) continue;
    const { at, form } = time.dataset;
    const atMs = Number(at);
    if (form === 'ago') setText(time, agoText(atMs, nowMs));
    else if (form === 'elapsed') setText(time, wholeText(nowMs - atMs));
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

/** @param {number} atMs milliseconds since the epoch @returns {string} with the time zone */
function localText(atMs) {
  return Number.isNaN(new Date(atMs).getTime()) ? 'an unknown time' : local.format(atMs);
}

/** Announces a text to screen readers. @param {string} text */
export function announce(text) {
  setText(byId('announcer'), text);
}
