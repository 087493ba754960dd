/** The files that are to be uploaded, as a list that tells how far each is. */

import { button, element, setText } from '../../../lib/page/dom.js';
import { sizeText } from '../../../lib/page/text.js';

/** @typedef {import('./dropped.js').Dropped} Dropped */

/**
 * @typedef {object} Item
 * @property {string} path where it lies below the folder of the upload
 * @property {File} file
 * @property {Map<string, string>} blobIds of what was sent, by the repository that has it
 * @property {number} sentShare from 0 to 1
 * @property {string} problem why it cannot be uploaded; empty when there is none
 * @property {string} failure why it was not sent; empty when there is none
 * @property {boolean} isReplacing whether it is said to take the place of another file
 * @property {HTMLElement} row
 * @property {HTMLElement} note
 * @property {HTMLProgressElement} bar
 */

/** Files by path, shown in a list. Only rows that change are drawn anew. */
export class Queue {
  /** @type {Map<string, Item>} */
  #items = new Map();
  #maxUploadBytes = Infinity;
  #set;
  #list;
  #onChange;

  /**
   * @param {HTMLFieldSetElement} set that holds the list
   * @param {HTMLElement} list
   * @param {() => void} onChange called when other files are in the list
   */
  constructor(set, list, onChange) {
    this.#set = set;
    this.#list = list;
    this.#onChange = onChange;
  }

  /** @returns {Item[]} as they are now; the list may go on without them */
  items() {
    return [...this.#items.values()];
  }

  /** @returns {string[]} */
  paths() {
    return [...this.#items.keys()];
  }

  /** @returns {string[]} paths of the files that cannot be uploaded */
  badPaths() {
    return this.items()
      .filter((item) => this.#problemOf(item) !== '')
      .map(({ path }) => path);
  }

  /** @returns {boolean} */
  hasTooLarge() {
    return this.items().some((item) => this.#isTooLarge(item));
  }

  /** @param {readonly Dropped[]} files one of a path that is there already takes its place */
  add(files) {
    const rows = document.createDocumentFragment();
    for (const { path, file } of files) {
      const before = this.#items.get(path);
      before?.row.remove();
      const item = this.#itemOf(path, file);
      // What is known of its path stays true.
      item.problem = before?.problem ?? '';
      item.isReplacing = before?.isReplacing ?? false;
      this.#items.set(path, item);
      this.tell(item);
      rows.append(item.row);
    }
    this.#list.append(rows);
    this.#onChange();
  }

  /** @param {readonly string[]} paths */
  remove(paths) {
    for (const path of paths) {
      this.#items.get(path)?.row.remove();
      this.#items.delete(path);
    }
    this.#onChange();
  }

  clear() {
    this.#items.clear();
    this.#list.replaceChildren();
    this.#onChange();
  }

  /** @param {number} maxUploadBytes the greatest file that can be uploaded */
  limit(maxUploadBytes) {
    if (maxUploadBytes === this.#maxUploadBytes) return;
    this.#maxUploadBytes = maxUploadBytes;
    for (const item of this.#items.values()) this.tell(item);
  }

  /**
   * Says of the files what is known of the place that they go to.
   * @param {{ problemOf: (path: string) => string, replaces: (path: string) => boolean }} known
   */
  mark({ problemOf, replaces }) {
    for (const item of this.#items.values()) {
      const problem = problemOf(item.path);
      const isReplacing = replaces(item.path);
      if (problem === item.problem && isReplacing === item.isReplacing) continue;
      item.problem = problem;
      item.isReplacing = isReplacing;
      this.tell(item);
    }
  }

  /** @param {boolean} isBusy while files are sent, and none can be taken off the list */
  hold(isBusy) {
    this.#set.disabled = isBusy;
    if (isBusy) this.#list.tabIndex = 0;
    else this.#list.removeAttribute('tabindex');
  }

  /** Shows no progress any more. */
  rest() {
    for (const item of this.#items.values()) {
      item.sentShare = 0;
      this.tell(item);
    }
  }

  /** Brings the first file that cannot be uploaded into sight, within the list. */
  showBad() {
    const bad = this.items().find((item) => this.#problemOf(item) !== '');
    if (bad !== undefined) this.#list.scrollTop = bad.row.offsetTop - this.#list.offsetTop;
  }

  /** @param {Item} item of which something is to be said now */
  tell(item) {
    const problem = this.#problemOf(item);
    const { sentShare, failure, isReplacing, note, bar } = item;
    note.className = problem !== '' || failure !== '' ? 'note bad' : 'note';
    bar.hidden = sentShare === 0;
    bar.value = sentShare;
    setText(note, problem || failure || (isReplacing ? 'Replaces the file of this name.' : ''));
  }

  /** @param {Item} item */
  #isTooLarge({ file }) {
    return file.size > this.#maxUploadBytes;
  }

  /** @param {Item} item */
  #problemOf(item) {
    if (this.#isTooLarge(item))
      return `Too large: the service takes files of up to ${sizeText(this.#maxUploadBytes)}.`;
    return item.problem;
  }

  /** @param {string} path @param {File} file @returns {Item} */
  #itemOf(path, file) {
    const note = element('span', { class: 'note' });
    const bar = element('progress', { max: 1, value: 0, 'aria-label': `Sent of ${path}` });
    const remove = button(
      { class: 'quiet', 'aria-label': `Remove ${path}` },
      () => this.remove([path]),
      'Remove',
    );
    const name = element('span', { class: 'name' }, path);
    const size = element('span', { class: 'dim size' }, sizeText(file.size));
    const row = element('li', {}, name, size, remove, note, bar);
    const said = { sentShare: 0, problem: '', failure: '', isReplacing: false };
    return { path, file, blobIds: new Map(), ...said, row, note, bar };
  }
}
