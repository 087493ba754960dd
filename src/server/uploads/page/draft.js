/** The upload that is being prepared: its files, its place and its message. */

import { byId, setText } from '../../../lib/page/dom.js';
import { Checks } from './check.js';
import { cleanFolder, defaultMessage, filesText } from './format.js';
import { BAD_ADVICE, badText, targetOf } from './plan.js';
import { Queue } from './queue.js';
import { fieldsOfPage, showTarget } from './upload-form.js';

/** @typedef {import('./view.js').View} View */
/** @typedef {import('./queue.js').Item} Item */
/** @typedef {import('./plan.js').Target} Target */
/** @typedef {{ problems: ReadonlyMap<string, string>, replaces: ReadonlySet<string> }} Known */

/** @type {Known} */
const NOTHING_KNOWN = { problems: new Map(), replaces: new Set() };

/** The form and its files. */
export class Draft {
  fields = fieldsOfPage();
  queue = new Queue(this.fields.queueSet, byId('queue'), () => {
    // What was said of other files holds no more.
    setText(this.fields.problem, '');
    this.refresh();
  });
  #checks = new Checks((answer) => this.mark(answer));
  /** @type {View | null} */
  #view = null;
  #isHeld = false;
  #hasOwnMessage = false;
  /** The service's last answer about the place that the files go to. */
  #known = NOTHING_KNOWN;
  #knownTargetKey = '';
  #checkedKey = '';

  /** @param {View} view where files go to now */
  show(view) {
    this.#view = view;
    showTarget(this.fields, view);
    this.queue.limit(view.maxUploadBytes);
    this.refresh();
  }

  /** @param {boolean} isHeld while it is uploaded, and stays as it is */
  hold(isHeld) {
    this.#isHeld = isHeld;
    if (isHeld) this.#checks.end();
    else this.queue.rest();
    this.refresh();
  }

  /** Asks nothing any more. */
  rest() {
    this.#checks.end();
    this.#checkedKey = '';
  }

  /** Forgets all that was filled in. */
  clear() {
    this.#hasOwnMessage = false;
    this.fields.subfolder.value = '';
    this.fields.newBranch.value = '';
    this.fields.sameBranch.checked = true;
    this.queue.clear();
  }

  /** Notes that the message is somebody's own. */
  wrote() {
    this.#hasOwnMessage = this.fields.message.value !== '';
  }

  /** Takes the files off the list that cannot be uploaded. */
  leaveOut() {
    this.queue.remove(this.queue.badPaths());
    if (document.activeElement === document.body) this.fields.send.focus();
  }

  /** @param {View} view @returns {Target} */
  targetIn(view) {
    const { subfolder, otherBranch, newBranch, start } = this.fields;
    return targetOf(view, {
      subfolder: subfolder.value,
      isOtherBranch: otherBranch.checked,
      newBranch: newBranch.value,
      startFrom: start.value,
    });
  }

  /**
   * The problem that keeps an upload from starting, found without asking the service; empty when there is none.
   * @param {Target} target
   */
  problemBefore({ isNewBranch, branch }) {
    // Earlier answers of the service do not count here, as they may be outdated: it is asked again.
    if (this.queue.hasTooLarge()) return BAD_ADVICE;
    if (isNewBranch && branch === '') return 'Give the new branch a name.';
    if (this.fields.message.value.trim() === '')
      return 'Write a message: it says in the history what this upload is.';
    return '';
  }

  /** Shows what the form says, as it is filled in now. */
  refresh() {
    const { fields, sendRow, send, stop, clear, message, controls } = this.fields;
    const paths = this.queue.paths();
    fields.hidden = paths.length === 0;
    sendRow.hidden = paths.length === 0;
    stop.hidden = !this.#isHeld;
    clear.hidden = this.#isHeld;
    setText(send, this.#isHeld ? 'Uploading…' : `Upload ${filesText(paths.length)}`);
    for (const control of controls) control.disabled = this.#isHeld;
    this.queue.hold(this.#isHeld);
    if (!this.#isHeld) {
      if (!this.#hasOwnMessage) message.value = defaultMessage(paths);
      if (this.#view !== null) this.#refreshTarget(this.#view, paths);
    }
    this.#showSums();
  }

  /**
   * Says of the files what is known of where they go to.
   * @param {Known} known
   */
  mark(known) {
    this.#known = known;
    this.queue.mark({
      problemOf: (path) => (known.problems.has(path) ? `It ${known.problems.get(path)}.` : ''),
      replaces: (path) => known.replaces.has(path),
    });
    this.#showSums();
  }

  /** @param {View} view @param {readonly string[]} paths */
  #refreshTarget(view, paths) {
    const { subfolder, subfolderHelp, newBranchFields } = this.fields;
    const target = this.targetIn(view);
    newBranchFields.hidden = !target.isNewBranch;
    const folder = target.folder === '' ? 'the top folder' : target.folder;
    setText(subfolderHelp, `The files go into ${folder} of ${target.repositoryName}.`);
    const targetKey = JSON.stringify(target);
    const key = JSON.stringify([targetKey, paths]);
    if (key === this.#checkedKey) return;
    this.#checkedKey = key;
    const { problems, replaces } = targetKey === this.#knownTargetKey ? this.#known : NOTHING_KNOWN;
    this.#knownTargetKey = targetKey;
    // What the folder holds that is shown is known at once.
    const isShown = !target.isNewBranch && cleanFolder(subfolder.value) === '';
    const names = isShown ? view.entries.flatMap(({ kind, name }) => (kind === 'file' ? name : [])) : [];
    this.mark({ problems, replaces: new Set([...replaces, ...names]) });
    if (view.repository.takesFiles) this.#checks.begin(target, paths);
  }

  #showSums() {
    const { badRow, badSum, leaveOut, replacing } = this.fields;
    const items = this.queue.items();
    const badCount = this.queue.badPaths().length;
    const replacingCount = items.filter(({ isReplacing }) => isReplacing).length;
    badRow.hidden = badCount === 0 || this.#isHeld;
    setText(badSum, badText(badCount));
    setText(leaveOut, badCount === 1 ? 'Leave it out' : 'Leave them out');
    leaveOut.hidden = badCount === items.length;
    // In a long list, the marked ones need not be in sight.
    setText(
      replacing,
      replacingCount === 0 || items.length === 1
        ? ''
        : `Files that replace one of their name: ${replacingCount} of ${items.length}.`,
    );
  }
}
