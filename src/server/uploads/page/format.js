/** Text for people, and places in repositories. Everything here is pure. */

import { printable } from '../../../lib/page/text.js';

/**
 * @param {number} count
 * @returns {string} `1 file`, `3 files`
 */
export function filesText(count) {
  return count === 1 ? '1 file' : `${count} files`;
}

/**
 * The message that an upload has when its author writes none.
 * @param {readonly string[]} paths of the files, as they were dropped
 * @returns {string}
 */
export function defaultMessage(paths) {
  const [first, second, ...others] = paths.map(printable);
  if (first === undefined) return '';
  if (second === undefined) return `Upload ${first}`;
  return others.length === 0
    ? `Upload ${first} and ${second}`
    : `Upload ${first} and ${others.length + 1} other files`;
}

/**
 * Joins parts of a path; empty parts do not count.
 * @param {...string} parts
 * @returns {string} without a slash at either end
 */
export function joinPath(...parts) {
  return parts.filter((part) => part !== '').join('/');
}

/**
 * A folder as somebody writes it: slashes and spaces too many are left out, and `\\` is a slash to many.
 * @param {string} text
 * @returns {string} without a slash at either end
 */
export function cleanFolder(text) {
  return joinPath(...text.split(/[/\\]/).map((segment) => segment.trim()));
}

/**
 * Every folder on the way to a path, the path itself the last.
 * @param {string} path without a slash at either end
 * @returns {{ name: string, path: string }[]}
 */
export function crumbsOf(path) {
  if (path === '') return [];
  const segments = path.split('/');
  return segments.map((name, index) => ({ name, path: segments.slice(0, index + 1).join('/') }));
}

/**
 * The place that the page shows.
 * @typedef {object} Place
 * @property {string} repositoryId empty for none
 * @property {string | null} branch null for the default branch
 * @property {string} path of the folder, without a slash at either end
 */

/**
 * Reads a place from the part of the page's address after `#`, where the browser's history keeps it.
 * @param {string} hash
 * @returns {Place}
 */
export function readPlace(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  return {
    repositoryId: fields.get('repository') ?? '',
    branch: fields.get('branch'),
    path: fields.get('path') ?? '',
  };
}

/**
 * Writes a place for {@link readPlace}.
 * @param {Place} place
 * @returns {string} with `#`
 */
export function writePlace({ repositoryId, branch, path }) {
  const fields = new URLSearchParams();
  if (repositoryId !== '') fields.set('repository', repositoryId);
  if (branch !== null) fields.set('branch', branch);
  if (path !== '') fields.set('path', path);
  return `#${fields.toString()}`;
}

/**
 * The address of a repository for git clients. There, `.git` at the end does not count: where it belongs to the name, the
 * repository is named by its id.
 * @param {string} base address of the service, which ends with a slash
 * @param {{ id: string, full_name: string, url: string | null }} repository
 * @returns {string}
 */
export function gitAddress(base, { id, full_name: fullName, url }) {
  const known = url === null && /\.git$/i.test(fullName) ? id : fullName;
  const path = known.split('/').map(encodeURIComponent).join('/');
  return `${base}git/${path.replace(/\.git$/, '')}.git`;
}

/**
 * Folders first, then by name as a reader counts: `2` before `10`.
 * @template {{ kind: string, name: string }} Entry
 * @param {readonly Entry[]} entries
 * @returns {Entry[]}
 */
export function sortEntries(entries) {
  const collator = new Intl.Collator(undefined, { numeric: true });
  return [...entries].sort((left, right) =>
    left.kind === right.kind ? collator.compare(left.name, right.name) : left.kind === 'folder' ? -1 : 1,
  );
}
