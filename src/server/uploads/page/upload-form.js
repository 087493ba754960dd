/** The form for uploads: its controls, and what it says about where files would go. */

import { byId, setText } from '../../../lib/page/dom.js';
import { chosenFiles, droppedFiles } from './dropped.js';

/** @typedef {import('./view.js').View} View */
/** @typedef {ReturnType<typeof fieldsOfPage>} Fields */

/** Finds the controls of the form. */
export function fieldsOfPage() {
  // These rest while files are sent.
  const controls = {
    subfolder: byId('subfolder', HTMLInputElement),
    sameBranch: byId('same-branch', HTMLInputElement),
    otherBranch: byId('other-branch', HTMLInputElement),
    newBranch: byId('new-branch', HTMLInputElement),
    start: byId('start', HTMLSelectElement),
    message: byId('message', HTMLTextAreaElement),
    send: byId('send', HTMLButtonElement),
    clear: byId('clear', HTMLButtonElement),
    choose: byId('choose', HTMLButtonElement),
    leaveOut: byId('leave-out', HTMLButtonElement),
  };
  return {
    ...controls,
    controls: Object.values(controls),
    section: byId('upload'),
    form: byId('upload-form', HTMLFormElement),
    external: byId('external'),
    drop: byId('drop'),
    files: byId('files', HTMLInputElement),
    leftOut: byId('left-out'),
    queueSet: byId('queue-set', HTMLFieldSetElement),
    replacing: byId('replacing'),
    badRow: byId('bad'),
    badSum: byId('bad-sum'),
    stop: byId('stop', HTMLButtonElement),
    fields: byId('fields'),
    sendRow: byId('send-row'),
    subfolderHelp: byId('subfolder-help'),
    branchChoice: byId('branch-choice'),
    sameBranchText: byId('same-branch-text'),
    newBranchFields: byId('new-branch-fields'),
    startField: byId('start-field'),
    problem: byId('upload-problem'),
    progress: byId('progress'),
  };
}

/**
 * Shows where an upload would go to.
 * @param {Fields} fields
 * @param {View} view
 */
export function showTarget(fields, { repository, branch, commitId, branches, defaultBranch }) {
  const isEmpty = commitId === null;
  fields.form.hidden = !repository.takesFiles;
  fields.external.hidden = repository.takesFiles;
  setText(
    fields.external,
    `Files cannot be dropped here: this repository is connected to ${repository.url ?? 'an external Git repository'}. What is committed there appears here.`,
  );
  fields.branchChoice.hidden = isEmpty;
  fields.startField.hidden = isEmpty;
  setText(fields.sameBranchText, branch ?? '');
  if (isEmpty && fields.newBranch.value === '') fields.newBranch.value = branch ?? defaultBranch ?? 'main';
  const place = JSON.stringify([repository.id, branch]);
  // What somebody has chosen stays when the same place is shown again.
  const chosen = fields.start.dataset['place'] === place ? fields.start.value : (branch ?? '');
  fields.start.dataset['place'] = place;
  fields.start.replaceChildren(
    ...branches.map(({ name }) => {
      const option = new Option('', name, name === chosen, name === chosen);
      setText(option, `what is on ${name}`);
      return option;
    }),
    new Option('nothing: it starts empty', '', chosen === '', chosen === ''),
  );
}

/**
 * Has the form act on what its reader does.
 * @param {Fields} fields
 * @param {{ add: (drop: import('./dropped.js').Drop) => void, upload: () => void, stop: () => void,
 *   refresh: () => void, clear: () => void, leaveOut: () => void, wrote: () => void }} acts
 */
export function listen(fields, { add, upload, stop, refresh, clear, leaveOut, wrote }) {
  fields.choose.addEventListener('click', () => fields.files.click());
  fields.files.addEventListener('change', () => {
    if (fields.files.files !== null) add(chosenFiles(fields.files.files));
    // The same file can be chosen again.
    fields.files.value = '';
  });
  fields.clear.addEventListener('click', clear);
  fields.stop.addEventListener('click', stop);
  fields.leaveOut.addEventListener('click', leaveOut);
  fields.message.addEventListener('input', wrote);
  const { subfolder, sameBranch, otherBranch, newBranch, start } = fields;
  for (const control of [subfolder, sameBranch, otherBranch, newBranch, start])
    control.addEventListener('input', refresh);
  fields.form.addEventListener('submit', (event) => {
    event.preventDefault();
    upload();
  });
  document.addEventListener('dragover', (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    // A file that misses the page would be opened in its place.
    event.preventDefault();
    fields.drop.classList.add('over');
  });
  document.addEventListener('dragleave', (event) => {
    if (event.relatedTarget === null) fields.drop.classList.remove('over');
  });
  document.addEventListener('drop', (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    fields.drop.classList.remove('over');
    droppedFiles(event.dataTransfer).then(add, () =>
      setText(fields.problem, 'What was dropped cannot be read.'),
    );
  });
}
