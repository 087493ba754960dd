/** Making and filling elements. Text from the service always becomes a text node, never markup. */

import { printable } from '../../lib/page/text.js';

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | null} Child */
/** @typedef {Readonly<Record<string, string | number | boolean | null>>} Attributes */

/**
 * An HTML element, without attributes that are null or false.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes, ...children) {
  return complete(document.createElement(name), attributes, children);
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
  return complete(document.createElementNS(SVG, name), attributes, children);
}

/**
 * A button with an action.
 * @param {Attributes} attributes
 * @param {() => void} act
 * @param {...Child} children
 * @returns {HTMLButtonElement}
 */
export function button(attributes, act, ...children) {
  const made = element('button', { type: 'button', ...attributes }, ...children);
  made.addEventListener('click', act);
  return made;
}

/**
 * The page's element with an id.
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} id
 * @param {new () => Kind} [kind] its expected class
 * @returns {Kind}
 * @throws {Error} when index.html has none
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (found === null || (kind !== undefined && !(found instanceof kind)))
    throw new Error(`index.html has no such #${id}`);
  return /** @type {Kind} */ (found);
}

/**
 * Replaces the children of an element.
 * @param {Element} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodesOf(children));
}

/**
 * Sets an element's text, if it differs.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  const shown = printable(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Attributes} attributes
 * @param {readonly Child[]} children
 * @returns {Made}
 */
function complete(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    made.setAttribute(name, value === true ? '' : printable(String(value)));
  }
  made.append(...nodesOf(children));
  return made;
}

/** @param {readonly Child[]} children @returns {Node[]} */
function nodesOf(children) {
  return children.flatMap((child) => {
    if (child === null) return [];
    return [typeof child === 'string' ? document.createTextNode(printable(child)) : child];
  });
}
