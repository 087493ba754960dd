/** Where an upload goes to, and what is said about it. Everything here is pure. */

import { cleanFolder, filesText, joinPath } from './format.js';

/** @typedef {import('./view.js').View} View */
/** @typedef {import('./service.js').Checked} Checked */

/**
 * Where an upload goes to; it stays the same whatever its reader looks at meanwhile.
 * @typedef {object} Target
 * @property {string} repositoryId
 * @property {string} repositoryName
 * @property {string} branch
 * @property {boolean} isNewBranch
 * @property {string | null} seenCommitId the branch's commit that the reader sees; null for a new branch
 * @property {string | null} startFrom the branch that a new one starts with; null for an empty start
 * @property {string} folder without a slash at either end
 */

/**
 * @param {Pick<View, 'repository' | 'branch' | 'commitId' | 'path'>} view
 * @param {{ subfolder: string, isOtherBranch: boolean, newBranch: string, startFrom: string }} form as it is filled in;
 *   `startFrom` is empty for an empty start
 * @returns {Target}
 */
export function targetOf({ repository, branch, commitId, path }, form) {
  const isNewBranch = commitId === null || form.isOtherBranch;
  return {
    repositoryId: repository.id,
    repositoryName: repository.name,
    branch: isNewBranch ? form.newBranch.trim() : (branch ?? ''),
    isNewBranch,
    seenCommitId: isNewBranch ? null : commitId,
    startFrom: isNewBranch && form.startFrom !== '' ? form.startFrom : null,
    folder: joinPath(path, cleanFolder(form.subfolder)),
  };
}

/**
 * @param {Target} target
 * @returns {string} `Plans, branch main, folder sales`
 */
export function targetText({ repositoryName, branch, folder }) {
  return `${repositoryName}, branch ${branch}${folder === '' ? '' : `, folder ${folder}`}`;
}

/**
 * Sorts what the service says of files that are to be uploaded.
 * @param {Checked} checked
 * @param {readonly string[]} paths of the files, below the folder
 * @param {string} folder
 * @returns {{ problems: Map<string, string>, replaces: Set<string>, general: string[] }} problems by path below the
 *   folder; what is wrong with the upload as a whole
 */
export function sortChecked({ problems, replaces }, paths, folder) {
  const byWhole = new Map(paths.map((path) => [joinPath(folder, path), path]));
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @type {string[]} */
  const general = [];
  for (const { path, message } of problems) {
    const own = path === null ? undefined : byWhole.get(path);
    if (own === undefined) general.push(message);
    else if (!known.has(own)) known.set(own, message);
  }
  return {
    problems: known,
    general,
    replaces: new Set(replaces.flatMap((path) => byWhole.get(path) ?? [])),
  };
}

/**
 * The fate of a commit whose answer was lost, as the branch shows it: `made`, `absent` while the branch is as it was, and
 * `unknown` when the branch cannot be read, or holds something else.
 * @typedef {{ kind: 'made', commitId: string } | { kind: 'absent' } | { kind: 'unknown', isRead: boolean }} Finding
 */

/**
 * Whether the commit may have been made although its request failed: there was no answer, or one from something between
 * the browser and the service, or the service failed in the middle.
 * @param {number} status HTTP status code; 0 when there was no answer
 * @returns {boolean}
 */
export function isUnsure(status) {
  return status === 0 || status === 408 || status >= 500;
}

/**
 * The text about an upload that failed, with advice.
 * @param {{ code: string, message: string }} error
 * @param {Target} target
 * @param {Finding | null} finding null where no commit can have been made
 * @returns {string}
 */
export function failureText({ code, message }, target, finding) {
  if (finding?.kind === 'absent')
    return `${message} The commit is not there so far, and your files are still listed: press Upload to try again. It is never made twice.`;
  if (finding?.kind === 'unknown')
    return finding.isRead
      ? `${message} The branch has changed meanwhile, and it is not known whether by this upload: look at ${targetText(target)} before you upload again. Your files are still listed.`
      : `${message} It is not known whether the commit was made: look at ${targetText(target)} when the service can be reached. Your files are still listed.`;
  if (code === 'moved' && target.isNewBranch)
    return `${message} Your files are still listed: choose another name, or that branch above.`;
  if (code === 'moved')
    return `${message} Nothing was overwritten. The folder shows what is there now, and your files are still listed: press Upload to put them on top.`;
  if (code === 'unchanged') return `${message} Remove them from the list, or choose others.`;
  return `${message} Nothing was changed, and your files are still listed.`;
}

/**
 * The text about files that would replace others, when the person has not seen that yet.
 * @param {number} count
 * @returns {string}
 */
export function surpriseText(count) {
  const what =
    count === 1 ? '1 file is there already and is' : `${filesText(count)} are there already and are`;
  return `${what} marked in the list now. Press Upload again to replace ${count === 1 ? 'it' : 'them'}.`;
}

/** Advice about files that are marked. */
export const BAD_ADVICE = 'Nothing was sent: leave the marked files out first.';

/**
 * @param {number} count of marked files
 * @returns {string}
 */
export function badText(count) {
  return `${filesText(count)} cannot be uploaded: the list says why.`;
}
