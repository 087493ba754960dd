/** Signing in, and going from place to place. */

import { byId, element, fill, setText } from '../../../lib/page/dom.js';
import { crumbsOf, readPlace, writePlace } from './format.js';
import * as service from './service.js';
import { Upload } from './upload.js';
import { showRepositories, showView } from './view.js';

/** @typedef {import('./format.js').Place} Place */
/** @typedef {import('./view.js').View} View */

/** @type {service.RepositoryList | null} */
let list = null;
/** @type {View | null} */
let view = null;
/** Counts what was asked for, so that a late answer does not take the place of a newer one. */
let turn = 0;

const upload = new Upload({
  go: (place) => {
    const hash = writePlace(place);
    // Going there by the address alone would not read a place again that is shown already.
    if (location.hash !== hash) history.pushState(null, '', hash);
    return show();
  },
  signOut: () =>
    leave('The key is not valid any more. Sign in with another one: your files are still listed then.'),
});

/** Shows the place that the address names, as it is now. */
async function show() {
  turn += 1;
  const mine = turn;
  const place = readPlace(location.hash);
  byId('inside').setAttribute('aria-busy', 'true');
  try {
    list = await service.listRepositories();
    const next = await look(place, list);
    if (mine !== turn) return;
    view = next;
    fill(byId('problem'));
  } catch (error) {
    if (mine !== turn) return;
    view = null;
    tell(error);
  }
  byId('inside').removeAttribute('aria-busy');
  if (service.storedKey() === null) return;
  if (list !== null) showRepositories(list.repositories, place.repositoryId);
  showView(view, startSaving);
  upload.show(view);
  setText(
    document.querySelector('title') ?? document.body,
    view === null ? 'Workbooks' : `${view.repository.name} – Workbooks`,
  );
}

/**
 * Reads what is at a place.
 * @param {Place} place
 * @param {service.RepositoryList} known
 * @returns {Promise<View | null>}
 */
async function look({ repositoryId, branch: asked, path }, { repositories, maxUploadBytes }) {
  if (repositoryId === '') return null;
  const repository = repositories.find(({ id }) => id === repositoryId);
  if (repository === undefined)
    throw new service.ServiceError(404, 'not_found', 'There is no such repository any more.');
  const { branches, defaultBranch } = await service.listBranches(repositoryId);
  const found =
    branches.find(({ name }) => name === (asked ?? defaultBranch)) ??
    (asked === null ? branches[0] : undefined);
  if (found === undefined && asked !== null && branches.length > 0)
    throw new service.ServiceError(404, 'not_found', `There is no branch ${asked} any more.`);
  const commitId = found?.commitId ?? null;
  return {
    repository,
    branches,
    defaultBranch,
    commitId,
    maxUploadBytes,
    branch: found?.name ?? null,
    path: commitId === null ? '' : path,
    entries: commitId === null ? [] : await service.listFolder(repositoryId, commitId, path),
  };
}

/** @param {unknown} error */
function tell(error) {
  if (!(error instanceof service.ServiceError)) throw error;
  if (error.status === 401) leave('The key is not valid any more. Sign in again.');
  else fill(byId('problem'), element('p', { class: 'card problem' }, error.message));
}

/**
 * Gives the reader a file.
 * @param {string} path
 * @param {string} name
 */
async function save(path, name) {
  if (view?.branch === undefined || view.branch === null) return;
  try {
    const blob = await service.download(view.repository.id, view.branch, path);
    const address = URL.createObjectURL(blob);
    const link = document.createElement('a');
    link.href = address;
    link.download = name;
    link.click();
    // The browser has begun to save it by then.
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    fill(byId('problem'));
  } catch (error) {
    tell(error);
  }
}

/** @param {string} path @param {string} name */
function startSaving(path, name) {
  void save(path, name);
}

/** @param {string} problem */
function leave(problem) {
  service.storeKey(null);
  turn += 1;
  byId('inside').hidden = true;
  byId('sign-out').hidden = true;
  byId('sign-in').hidden = false;
  setText(byId('key-problem'), problem);
  byId('key').focus();
}

function enter() {
  byId('sign-in').hidden = true;
  byId('inside').hidden = false;
  byId('sign-out').hidden = false;
  return show();
}

/** Shows another place, and moves the focus there for people who read with the keyboard or by ear. */
async function follow() {
  await show();
  if (document.activeElement === document.body) document.getElementById('repository-title')?.focus();
}

async function signIn() {
  const field = byId('key', HTMLInputElement);
  const key = field.value.trim();
  try {
    list = await service.listRepositories(key);
    service.storeKey(key);
    field.value = '';
    setText(byId('key-problem'), '');
    await enter();
    byId('main').focus();
  } catch (error) {
    if (!(error instanceof service.ServiceError)) throw error;
    const isWrong = error.status === 401;
    setText(
      byId('key-problem'),
      isWrong ? 'This is not a valid personal API key of this service.' : error.message,
    );
    field.select();
  }
}

setText(byId('host'), location.host);
byId('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void signIn();
});
byId('sign-out').addEventListener('click', () => {
  upload.reset();
  history.replaceState(null, '', '#');
  view = null;
  showView(null, startSaving);
  upload.show(null);
  fill(byId('repositories'));
  leave('');
});
byId('branch').addEventListener('change', () => {
  if (view === null) return;
  const branch = byId('branch', HTMLSelectElement).value;
  location.hash = writePlace({ repositoryId: view.repository.id, branch, path: '' });
});
byId('download-folder').addEventListener('click', () => {
  if (view === null) return;
  const name = crumbsOf(view.path).at(-1)?.name ?? view.repository.name;
  startSaving(view.path, `${name}.zip`);
});
byId('skip').addEventListener('click', (event) => {
  // What follows the # is the place.
  event.preventDefault();
  byId('main').focus();
});
window.addEventListener('hashchange', () => {
  if (service.storedKey() !== null) void follow();
});
if (service.storedKey() === null) leave('');
else void enter();
