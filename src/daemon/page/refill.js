/** Filling elements anew, only where there is something else to show. */

import { fill } from '../../lib/page/dom.js';

/** @import { Child } from '../../lib/page/dom.js' */

/** @type {WeakMap<Element, string>} */
const signatures = new WeakMap();

/**
 * Fills an element anew if what it is filled from is not what it was before. The control that has the focus has it afterwards, if
 * there is still one of its `data-key`.
 * @param {Element} parent
 * @param {unknown} data what the children follow from, as JSON
 * @param {() => Child[]} build
 */
export function refill(parent, data, build) {
  const signature = JSON.stringify(data);
  if (signatures.get(parent) === signature) return;
  signatures.set(parent, signature);
  const before = document.activeElement;
  const key = before instanceof HTMLElement && parent.contains(before) ? before.dataset['key'] : undefined;
  fill(parent, ...build());
  if (key === undefined) return;
  const after = parent.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (after instanceof HTMLElement) after.focus({ preventScroll: true });
}
