/** The files that are to be uploaded, as a list that tells how far each is. */

import { button, element, fill, setText } from './dom.js';
import { filesText, sizeText } from './format.js';
import { sendFile, ServiceError } from './service.js';

/** @typedef {import('./dropped.js').Dropped} Dropped */

/**
 * @typedef {object} Item
 * @property {string} path where it lies below the folder of the upload
 * @property {File} file
 * @property {string} blobId of what was sent; empty before
 * @property {string} problem why it was not sent; empty when there is none
 * @property {HTMLElement} note
 * @property {HTMLProgressElement} bar
 */

/** @typedef {{ repositoryId: string, maxUploadBytes: number, replaces: (path: string) => boolean }} Target */

/** Files by path, shown in a list. */
export class Queue {
  /** @type {Map<string, Item>} */
  #items = new Map();
  /** @type {Target} */
  #target = { repositoryId: '', maxUploadBytes: Infinity, replaces: () => false };
  #isBusy = false;
  #list;
  #onChange;

  /**
   * @param {HTMLElement} list
   * @param {() => void} onChange
   */
  constructor(list, onChange) {
    this.#list = list;
    this.#onChange = onChange;
  }

  /** @returns {string[]} */
  paths() {
    return [...this.#items.keys()];
  }

  /** @returns {boolean} */
  hasTooLarge() {
    return [...this.#items.values()].some((item) => this.#isTooLarge(item));
  }

  /** @returns {{ path: string, blobId: string }[]} */
  sent() {
    return [...this.#items.values()].map(({ path, blobId }) => ({ path, blobId }));
  }

  /** @param {readonly Dropped[]} files one of a path that is there already takes its place */
  add(files) {
    for (const { path, file } of files) {
      const bar = element('progress', { max: 1, value: 0, 'aria-label': `Sent of ${path}` });
      this.#items.set(path, { path, file, blobId: '', problem: '', note: element('span', {}), bar });
    }
    this.#show();
  }

  clear() {
    this.#items.clear();
    this.#show();
  }

  /** @param {Target} target */
  aimAt(target) {
    // What was sent lies in one repository, and no other knows it.
    if (target.repositoryId !== this.#target.repositoryId) this.forget();
    this.#target = target;
    this.#show();
  }

  /** Has all files sent again. */
  forget() {
    for (const item of this.#items.values()) item.blobId = '';
  }

  /**
   * Sends what has not been sent yet, one after the other.
   * @param {string} repositoryId
   * @param {(text: string) => void} onStep
   * @throws {ServiceError} when one cannot be sent
   */
  async send(repositoryId, onStep) {
    this.#isBusy = true;
    this.#show();
    try {
      let number = 0;
      for (const item of this.#items.values()) {
        number += 1;
        onStep(`Sending ${number} of ${filesText(this.#items.size)}`);
        if (item.blobId === '') await sendItem(repositoryId, item);
        item.bar.value = 1;
        this.#tell(item);
      }
    } finally {
      this.#isBusy = false;
      this.#show();
    }
  }

  /** @param {Item} item */
  #isTooLarge({ file }) {
    return file.size > this.#target.maxUploadBytes;
  }

  /** @param {Item} item */
  #tell(item) {
    const { path, blobId, problem, note, bar } = item;
    const isTooLarge = this.#isTooLarge(item);
    note.className = problem !== '' || isTooLarge ? 'note bad' : 'note';
    bar.hidden = !this.#isBusy;
    if (isTooLarge)
      setText(note, `Too large: the service takes files of up to ${sizeText(this.#target.maxUploadBytes)}.`);
    else if (problem !== '') setText(note, problem);
    else if (blobId !== '') setText(note, 'Sent.');
    else setText(note, this.#target.replaces(path) ? 'Replaces the file of this name.' : '');
  }

  #show() {
    const rows = [...this.#items.values()].map((item) => {
      this.#tell(item);
      const { path, file, note, bar } = item;
      const attributes = { class: 'quiet', disabled: this.#isBusy, 'aria-label': `Remove ${path}` };
      const remove = button(attributes, 'Remove', () => {
        this.#items.delete(path);
        this.#show();
      });
      const name = element('span', { class: 'name' }, path);
      const size = element('span', { class: 'dim size' }, sizeText(file.size));
      return element('li', {}, name, size, remove, note, bar);
    });
    fill(this.#list, ...rows);
    this.#onChange();
  }
}

/**
 * @param {string} repositoryId
 * @param {Item} item
 */
async function sendItem(repositoryId, item) {
  item.problem = '';
  try {
    item.blobId = await sendFile(repositoryId, item.file, (share) => {
      item.bar.value = share;
    });
  } catch (error) {
    item.bar.value = 0;
    if (error instanceof ServiceError && error.status !== 401) item.problem = error.message;
    throw error;
  }
}
