/** Making and filling elements. Whatever text comes from the service becomes a text node, and never markup. */

import { agoText, countdownText, elapsedText, printable, utcText } from './format.js';

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | null} Child */
/** @typedef {Readonly<Record<string, string | number | boolean | null>>} Attributes */

/**
 * An HTML element. Attributes that are null or false are left out.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  setAttributes(made, attributes);
  made.append(...nodesOf(children));
  return made;
}

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} attributes
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function drawing(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  setAttributes(made, attributes);
  made.append(...nodesOf(children));
  return made;
}

/**
 * The element of the page with an id.
 * @param {string} id
 * @returns {HTMLElement}
 * @throws {Error} when index.html has none
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no #${id}`);
  return found;
}

/**
 * Sets an element's text, if it is another one.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  const shown = printable(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/** @type {WeakMap<Element, string>} */
const signatures = new WeakMap();

/**
 * Fills an element anew if what it is filled from is not what it was before. Which control has the focus stays so.
 * @param {Element} parent
 * @param {unknown} data what the children follow from, as JSON
 * @param {() => Child[]} build
 */
export function fill(parent, data, build) {
  const signature = JSON.stringify(data);
  if (signatures.get(parent) === signature) return;
  signatures.set(parent, signature);
  keepFocus(parent, () => parent.replaceChildren(...nodesOf(build())));
}

/**
 * Changes what is in an element; the control that has the focus has it afterwards, if there is still one of its `data-key`.
 * @param {Element} parent
 * @param {() => void} change
 */
function keepFocus(parent, change) {
  const before = document.activeElement;
  const key = before instanceof HTMLElement && parent.contains(before) ? before.dataset['key'] : undefined;
  change();
  if (key === undefined || document.activeElement === before) return;
  for (const candidate of parent.querySelectorAll('[data-key]')) {
    if (!(candidate instanceof HTMLElement) || candidate.dataset['key'] !== key) continue;
    candidate.focus({ preventScroll: true });
    return;
  }
}

/**
 * A time that is told by its distance from now, which {@link tick} keeps right; null is `never`.
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
 * Puts all times right that are told by their distance from now.
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

/** @param {Element} made @param {Attributes} attributes */
function setAttributes(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    made.setAttribute(name, value === true ? '' : printable(String(value)));
  }
}

/** @param {readonly Child[]} children @returns {Node[]} */
function nodesOf(children) {
  return children.flatMap((child) => {
    if (child === null) return [];
    return [typeof child === 'string' ? document.createTextNode(printable(child)) : child];
  });
}
