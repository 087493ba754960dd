/** Signs and words that stand for a state: never a colour alone. */

import { drawing, element } from '../../lib/page/dom.js';

/** @import { Tone } from './targets.js' */

/**
 * The sign of a tone, drawn in the current colour; its shape tells it as well.
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

/** The outlines of the signs, in a square of 16, for the icon of the page. @type {Readonly<Record<Tone, string>>} */
const ICON_MARKS = {
  ok: '<path d="M4.5 8.3l2.4 2.4 4.6-5" fill="none" stroke="#fff" stroke-width="2"/>',
  warn: '<path d="M8 3.8v5M8 10.6v1.9" stroke="#fff" stroke-width="2"/>',
  bad: '<path d="M5 5l6 6M11 5l-6 6" stroke="#fff" stroke-width="2"/>',
  held: '<path d="M6 4.8v6.4M10 4.8v6.4" stroke="#fff" stroke-width="2"/>',
  off: '<path d="M4.5 8h7" stroke="#fff" stroke-width="2"/>',
};

/** @type {Readonly<Record<Tone, string>>} */
const ICON_COLOURS = { ok: '#12805c', warn: '#a66300', bad: '#c5302a', held: '#6350c7', off: '#64707c' };

/**
 * The icon of the page for a tone.
 * @param {Tone} tone
 * @returns {string} a data: address
 */
export function iconAddress(tone) {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="${ICON_COLOURS[tone]}"/>${ICON_MARKS[tone]}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
