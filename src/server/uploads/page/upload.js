/** Uploads: what is sent and said from the press of the button to the commit. */

import { setText } from '../../../lib/page/dom.js';
import { sentence } from '../../../lib/page/text.js';
import { check } from './check.js';
import { findCommit } from './confirm.js';
import { Draft } from './draft.js';
import { joinPath } from './format.js';
import { BAD_ADVICE, failureText, isUnsure, surpriseText } from './plan.js';
import { showResult } from './result.js';
import { sendItems } from './sending.js';
import { listBranches, sendCommit, ServiceError } from './service.js';
import { listen } from './upload-form.js';

/** @typedef {import('./view.js').View} View */
/** @typedef {import('./queue.js').Item} Item */
/** @typedef {import('./plan.js').Target} Target */

/** How long is looked for a commit whose answer was lost. */
const FIND_LIMIT_MS = 30_000;

/**
 * @typedef {object} Hooks
 * @property {(place: import('./format.js').Place) => Promise<void>} go shows a place as it is now
 * @property {() => void} signOut has the reader sign in again
 */

/**
 * An upload under way: what it began with, whatever the page shows meanwhile.
 * @typedef {object} Run
 * @property {View} view
 * @property {Target} target
 * @property {Item[]} items
 * @property {string} message
 * @property {AbortController} controller of what is under way
 */

/** The part of the page on which files are uploaded, one upload at a time. */
export class Upload {
  #draft = new Draft();
  #fields = this.#draft.fields;
  /** @type {View | null} */
  #view = null;
  /** @type {Run | null} */
  #run = null;
  /** The id of the repository whose outcome is shown; empty for none. */
  #outcomeId = '';
  #hooks;

  /** @param {Hooks} hooks */
  constructor(hooks) {
    this.#hooks = hooks;
    const draft = this.#draft;
    listen(this.#fields, {
      add: (drop) => this.#add(drop),
      upload: () => void this.#upload(),
      stop: () => this.#run?.controller.abort(),
      refresh: () => draft.refresh(),
      clear: () => draft.queue.clear(),
      leaveOut: () => {
        this.#forgetOutcome();
        draft.leaveOut();
      },
      wrote: () => draft.wrote(),
    });
    window.addEventListener('beforeunload', (event) => {
      if (draft.queue.paths().length > 0) event.preventDefault();
    });
  }

  /** @param {View | null} view where files go to now; null for nowhere */
  show(view) {
    const id = view?.repository.id;
    if (id !== this.#view?.repository.id && id !== this.#outcomeId) this.#forgetOutcome();
    this.#view = view;
    // An upload under way stays in sight, and the form as it was.
    if (this.#run !== null) return;
    this.#fields.section.hidden = view === null;
    if (view === null) this.#draft.rest();
    else this.#draft.show(view);
  }

  /** Forgets everything, and stops what is under way. */
  reset() {
    this.#run?.controller.abort();
    this.#release();
    this.#draft.clear();
    this.#draft.rest();
    this.#forgetOutcome();
  }

  #forgetOutcome() {
    this.#outcomeId = '';
    showResult(null);
    setText(this.#fields.problem, '');
    setText(this.#fields.leftOut, '');
  }

  /** @param {import('./dropped.js').Drop} drop */
  #add({ files, leftOutCount }) {
    if (this.#view === null || !this.#view.repository.takesFiles || this.#run !== null) return;
    this.#forgetOutcome();
    if (leftOutCount > 0)
      setText(this.#fields.leftOut, 'Folders with the name .git were left out: no commit can hold them.');
    if (files.length > 0) this.#draft.queue.add(files);
  }

  async #upload() {
    const view = this.#view;
    const items = this.#draft.queue.items();
    if (view === null || this.#run !== null || items.length === 0) return;
    this.#forgetOutcome();
    const target = this.#draft.targetIn(view);
    const problem = this.#draft.problemBefore(target);
    setText(this.#fields.problem, problem);
    if (problem !== '') return this.#draft.queue.showBad();
    const message = this.#fields.message.value;
    /** @type {Run} */
    const run = { view, target, items, message, controller: new AbortController() };
    this.#run = run;
    this.#draft.hold(true);
    /** @type {() => Promise<void>} */
    let settle = () => Promise.resolve();
    try {
      settle = await this.#outcomeOf(run);
    } finally {
      // After signing out, no outcome is shown.
      if (this.#run === run) this.#release();
      else settle = () => Promise.resolve();
    }
    await settle();
    if (document.activeElement === document.body) this.#fields.choose.focus({ preventScroll: true });
  }

  #release() {
    this.#run = null;
    setText(this.#fields.progress, '');
    this.#draft.hold(false);
  }

  /**
   * Uploads.
   * @param {Run} run
   * @returns {Promise<() => Promise<void>>} what shows the outcome
   */
  async #outcomeOf(run) {
    try {
      const refusal = await this.#refusalOf(run);
      if (refusal !== '') return () => this.#stay(run, refusal);
      await sendItems(run.target.repositoryId, run.items, {
        signal: run.controller.signal,
        onStep: (text) => this.#tellStep(run, text),
        onItem: (item) => this.#draft.queue.tell(item),
      });
    } catch (error) {
      if (error instanceof ServiceError) return () => this.#fail(run, error);
      throw error;
    }
    return this.#commit(run);
  }

  /** @param {Run} run @param {string} text */
  #tellStep(run, text) {
    if (this.#run === run) setText(this.#fields.progress, `${run.target.repositoryName}: ${text}`);
  }

  /**
   * Asks what the service would refuse, before anything is sent.
   * @param {Run} run
   * @returns {Promise<string>} empty when nothing is in the way
   */
  async #refusalOf(run) {
    const { target, items, controller } = run;
    this.#tellStep(run, 'Asking the service');
    const paths = items.map(({ path }) => path);
    const known = await check(target, paths, controller.signal);
    const [general] = known.general;
    if (general !== undefined) {
      const { branches } = await listBranches(target.repositoryId, controller.signal);
      const commitId = branches.find(({ name }) => name === target.branch)?.commitId ?? null;
      const code = commitId === target.seenCommitId ? 'invalid' : 'moved';
      throw new ServiceError(409, code, sentence(general));
    }
    const surprises = items.filter(({ path, isReplacing }) => !isReplacing && known.replaces.has(path));
    if (this.#run === run) this.#draft.mark(known);
    if (known.problems.size > 0) return BAD_ADVICE;
    return surprises.length === 0 ? '' : surpriseText(surprises.length);
  }

  /** @param {Run} run @returns {Promise<() => Promise<void>>} what shows the outcome */
  async #commit(run) {
    const { target, items, message, controller } = run;
    const { repositoryId, branch, seenCommitId, startFrom, folder } = target;
    const files = items.map(({ path, blobIds }) => ({
      path: joinPath(folder, path),
      blobId: blobIds.get(repositoryId) ?? '',
    }));
    this.#tellStep(run, 'Making the commit');
    try {
      const commit = { branch, seenCommitId, startFrom, message, files };
      const commitId = await sendCommit(repositoryId, commit, controller.signal);
      return () => this.#succeed(run, commitId);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      if (!isUnsure(error.status)) return () => this.#fail(run, error);
      if (this.#run !== run) return () => Promise.resolve();
      this.#tellStep(run, 'Looking whether the commit was made');
      run.controller = new AbortController();
      const signal = AbortSignal.any([run.controller.signal, AbortSignal.timeout(FIND_LIMIT_MS)]);
      const finding = await findCommit(target, files, signal);
      return finding.kind === 'made'
        ? () => this.#succeed(run, finding.commitId)
        : () => this.#fail(run, error, finding);
    }
  }

  /** Whether the page still shows what it showed when an upload began. @param {Run} run */
  #isAt({ view }) {
    const now = this.#view;
    return now?.repository.id === view.repository.id && now.branch === view.branch && now.path === view.path;
  }

  /** @param {Run} run @param {string} commitId */
  async #succeed(run, commitId) {
    const { target, items } = run;
    const { repositoryId, branch, folder } = target;
    const isShown = this.#isAt(run);
    this.#draft.clear();
    this.#outcomeId = repositoryId;
    if (isShown) await this.#hooks.go({ repositoryId, branch, path: folder });
    else this.show(this.#view);
    showResult({ commitId, fileCount: items.length, target, isShown });
  }

  /**
   * @param {Run} run
   * @param {ServiceError} error
   * @param {import('./plan.js').Finding | null} [finding]
   */
  async #fail(run, error, finding = null) {
    if (error.status === 401) return this.#hooks.signOut();
    const { target, view, items } = run;
    if (error.code === 'file_not_received')
      for (const { blobIds } of items) blobIds.delete(target.repositoryId);
    const hasMoved = error.code === 'moved' || (finding?.kind === 'unknown' && finding.isRead);
    if (hasMoved && this.#isAt(run)) {
      const { id } = view.repository;
      await this.#hooks.go({ repositoryId: id, branch: view.branch, path: view.path });
      // Neither the branch nor the folder need be there any more.
      if (this.#view === null) await this.#hooks.go({ repositoryId: id, branch: null, path: '' });
    }
    await this.#stay(run, failureText(error, target, finding));
  }

  /**
   * Says why nothing came of an upload.
   * @param {Run} run
   * @param {string} text
   */
  #stay({ target }, text) {
    const isElsewhere = this.#view?.repository.id !== target.repositoryId;
    this.#outcomeId = target.repositoryId;
    this.show(this.#view);
    setText(this.#fields.problem, isElsewhere ? `Upload to ${target.repositoryName}: ${text}` : text);
    this.#draft.queue.showBad();
    return Promise.resolve();
  }
}
