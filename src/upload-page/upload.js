/** The part of the page on which files are uploaded. */

import { byId, setText } from './dom.js';
import { cleanFolder, defaultMessage, filesText, joinPath } from './format.js';
import { Queue } from './queue.js';
import { showResult } from './result.js';
import { sendCommit, ServiceError } from './service.js';
import { fieldsOfPage, listen, showTarget } from './upload-form.js';

/** @typedef {import('./view.js').View} View */
/** @typedef {import('./dropped.js').Dropped} Dropped */

/**
 * @typedef {object} Hooks
 * @property {(place: import('./format.js').Place) => Promise<void>} go shows a place as it is now
 * @property {() => void} signOut has the reader sign in again
 */

/** The files that are to be uploaded, and the form that says where to. */
export class Upload {
  #fields = fieldsOfPage();
  #queue = new Queue(byId('queue'), () => this.#refresh());
  /** @type {View | null} */
  #view = null;
  #isBusy = false;
  #hasOwnMessage = false;
  #hooks;

  /** @param {Hooks} hooks */
  constructor(hooks) {
    this.#hooks = hooks;
    listen(this.#fields, {
      add: (files) => this.#add(files),
      upload: () => void this.#upload(),
      refresh: () => this.#refresh(),
      clear: () => this.#queue.clear(),
      wrote: () => {
        this.#hasOwnMessage = this.#fields.message.value !== '';
      },
    });
    window.addEventListener('beforeunload', (event) => {
      if (this.#queue.paths().length > 0) event.preventDefault();
    });
  }

  /** @param {View | null} view where files go to now; null for nowhere */
  show(view) {
    if (view?.repository.id !== this.#view?.repository.id) this.#forgetOutcome();
    this.#view = view;
    this.#fields.section.hidden = view === null;
    if (view === null) return;
    showTarget(this.#fields, view);
    const names = new Set(view.entries.filter(({ kind }) => kind === 'file').map(({ name }) => name));
    this.#queue.aimAt({
      repositoryId: view.repository.id,
      maxUploadBytes: view.maxUploadBytes,
      replaces: (path) => cleanFolder(this.#fields.subfolder.value) === '' && names.has(path),
    });
  }

  /** Forgets everything. */
  reset() {
    this.#finish();
    this.#forgetOutcome();
  }

  #forgetOutcome() {
    showResult(null);
    setText(this.#fields.problem, '');
  }

  #finish() {
    this.#hasOwnMessage = false;
    this.#fields.subfolder.value = '';
    this.#fields.newBranch.value = '';
    this.#fields.sameBranch.checked = true;
    this.#queue.clear();
  }

  /** The folder that the files go into. */
  #folder() {
    return joinPath(this.#view?.path ?? '', cleanFolder(this.#fields.subfolder.value));
  }

  #isNewBranch() {
    return this.#view?.commitId === null || this.#fields.otherBranch.checked;
  }

  #refresh() {
    const { fields, sendRow, send, message, subfolderHelp, newBranchFields, controls } = this.#fields;
    const paths = this.#queue.paths();
    fields.hidden = paths.length === 0;
    sendRow.hidden = paths.length === 0;
    setText(send, this.#isBusy ? 'Uploading…' : `Upload ${filesText(paths.length)}`);
    if (!this.#hasOwnMessage) message.value = defaultMessage(paths);
    const folder = this.#folder();
    setText(subfolderHelp, `The files go into ${folder === '' ? 'the top folder' : folder}.`);
    newBranchFields.hidden = !this.#isNewBranch();
    for (const control of controls) control.disabled = this.#isBusy;
  }

  /** @param {readonly Dropped[]} files */
  #add(files) {
    if (this.#view === null || !this.#view.repository.takesFiles || this.#isBusy || files.length === 0)
      return;
    this.#forgetOutcome();
    this.#queue.add(files);
  }

  async #upload() {
    const view = this.#view;
    if (view === null || this.#isBusy || this.#queue.paths().length === 0) return;
    const problem = this.#problemBefore();
    this.#forgetOutcome();
    setText(this.#fields.problem, problem);
    if (problem !== '') return;
    this.#isBusy = true;
    try {
      await this.#send(view);
    } catch (error) {
      await this.#tell(error, view);
    } finally {
      this.#isBusy = false;
      setText(this.#fields.progress, '');
      this.#refresh();
      if (document.activeElement === document.body) this.#fields.choose.focus({ preventScroll: true });
    }
  }

  /**
   * Sends the files, and has them made one commit.
   * @param {View} view
   */
  async #send({ repository, branch: shownBranch, commitId: seenCommitId }) {
    const { newBranch, start, message, progress } = this.#fields;
    const isNew = this.#isNewBranch();
    const branch = isNew ? newBranch.value.trim() : (shownBranch ?? '');
    const folder = this.#folder();
    const commit = {
      branch,
      seenCommitId: isNew ? null : seenCommitId,
      startFrom: isNew && start.value !== '' ? start.value : null,
      message: message.value,
    };
    await this.#queue.send(repository.id, (text) => setText(progress, text));
    setText(progress, 'Making the commit');
    const files = this.#queue.sent().map(({ path, blobId }) => ({ path: joinPath(folder, path), blobId }));
    const commitId = await sendCommit(repository.id, { ...commit, files });
    this.#finish();
    await this.#hooks.go({ repositoryId: repository.id, branch, path: folder });
    showResult({ commitId, branch, fileCount: files.length, folder });
  }

  /** What stands in the way of an upload before it begins; empty when nothing does. */
  #problemBefore() {
    if (this.#queue.hasTooLarge()) return 'A file is too large for this service. Remove it from the list.';
    if (this.#isNewBranch() && this.#fields.newBranch.value.trim() === '')
      return 'Give the new branch a name.';
    if (this.#fields.message.value.trim() === '')
      return 'Write a message: it says in the history what this upload is.';
    return '';
  }

  /**
   * @param {unknown} error
   * @param {View} view
   */
  async #tell(error, { repository, branch, path }) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.status === 401) return this.#hooks.signOut();
    if (error.code === 'file_not_received') this.#queue.forget();
    const text = `${error.message} ${adviceFor(error, this.#isNewBranch())}`;
    if (error.code === 'moved') {
      await this.#hooks.go({ repositoryId: repository.id, branch, path });
      // Neither the branch nor the folder need be there any more.
      if (this.#view === null) await this.#hooks.go({ repositoryId: repository.id, branch: null, path: '' });
    }
    setText(this.#fields.problem, text);
  }
}

/**
 * What to do about a refusal.
 * @param {ServiceError} error
 * @param {boolean} isNewBranch
 * @returns {string}
 */
function adviceFor({ code }, isNewBranch) {
  if (code === 'moved' && isNewBranch)
    return 'Your files are still listed: choose another name, or that branch above.';
  if (code === 'moved')
    return 'Nothing was overwritten. The folder above shows what is there now, and your files are still listed: press Upload to put them on top.';
  if (code === 'unchanged') return 'Remove them from the list, or choose others.';
  return 'Nothing was changed, and your files are still listed.';
}
