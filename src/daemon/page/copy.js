/** Copying a command. */

import { button, element, setText } from '../../lib/page/dom.js';

/** How long the button says that it copied, in milliseconds. */
const SAID_MS = 2000;

/**
 * A command with a button that copies it.
 * @param {string} command
 * @param {{ key: string, announce: (text: string) => void }} options `key` stays the same while the command does
 * @returns {HTMLElement}
 */
export function commandNode(command, { key, announce }) {
  const code = element('code', {}, command);
  const attributes = { class: 'quiet', 'data-key': `copy ${key}`, 'aria-label': 'Copy the command' };
  const copier = button(attributes, () => void sayCopied(), 'Copy');
  const sayCopied = async () => {
    const said = (await copy(command, code)) ? 'Copied' : 'Selected: press Ctrl+C';
    copier.textContent = said;
    announce(said);
    setTimeout(() => setText(copier, 'Copy'), SAID_MS);
  };
  return element('span', { class: 'command' }, code, copier);
}

/**
 * The clipboard is there only on loopback and over TLS (W3C Secure Contexts); elsewhere the text is selected.
 * @param {string} text
 * @param {Node} node
 * @returns {Promise<boolean>} whether it was copied
 */
async function copy(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(node);
    return false;
  }
}
