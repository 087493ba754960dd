/** The part of the page on which repositories are read. */

import { button, byId, element, fill, setText } from '../../../lib/page/dom.js';
import { sizeText } from '../../../lib/page/text.js';
import { crumbsOf, gitAddress, joinPath, sortEntries, writePlace } from './format.js';

/** @typedef {import('./service.js').Repository} Repository */
/** @typedef {import('./service.js').Entry} Entry */

/**
 * A folder of a branch as it was at one moment.
 * @typedef {object} View
 * @property {Repository} repository
 * @property {{ name: string, commitId: string }[]} branches
 * @property {string | null} defaultBranch
 * @property {string | null} branch the one that is looked at
 * @property {string | null} commitId of the branch; null where there is none yet
 * @property {string} path
 * @property {Entry[]} entries
 * @property {number} maxUploadBytes
 */

/**
 * @param {readonly Repository[]} repositories
 * @param {string} chosenId
 */
export function showRepositories(repositories, chosenId) {
  const list = repositories.map((repository) => {
    const isChosen = repository.id === chosenId;
    const link = element(
      'a',
      {
        href: writePlace({ repositoryId: repository.id, branch: null, path: '' }),
        'aria-current': isChosen ? 'page' : null,
      },
      element('span', { class: 'name' }, repository.name),
      element('span', { class: 'dim small' }, repository.takesFiles ? 'takes files' : repository.full_name),
    );
    return element('li', {}, link);
  });
  fill(
    byId('repositories'),
    list.length === 0
      ? element(
          'p',
          { class: 'help' },
          'There is no repository yet. One is made with the API, or with the command repos create.',
        )
      : element('ul', { class: 'repositories' }, ...list),
  );
}

/**
 * @param {View | null} view null to show none
 * @param {(path: string, name: string) => void} save called with what is to be downloaded
 */
export function showView(view, save) {
  byId('repository').hidden = view === null;
  if (view === null) return;
  showHeading(view);
  showBranches(view);
  showCrumbs(view);
  byId('download-folder', HTMLButtonElement).hidden = view.commitId === null;
  fill(byId('entries'), entriesNode(view, save));
}

/** @param {View} view */
function showHeading({ repository }) {
  const base = new URL('./', location.href).href;
  fill(
    byId('heading'),
    element('h1', { id: 'repository-title', tabindex: -1 }, repository.name),
    repository.url === null ? null : element('p', { class: 'dim' }, `Connected to ${repository.url}`),
    element('p', { class: 'help' }, 'For Git: ', element('code', {}, gitAddress(base, repository))),
  );
}

/** @param {View} view */
function showBranches({ branches, branch, defaultBranch }) {
  byId('branch-row').hidden = branches.length === 0;
  byId('branch', HTMLSelectElement).replaceChildren(
    ...branches.map(({ name }) => {
      const option = new Option('', name, name === branch, name === branch);
      setText(option, name === defaultBranch ? `${name} (default)` : name);
      return option;
    }),
  );
}

/** @param {View} view */
function showCrumbs({ repository, branch, path }) {
  const crumbs = [{ name: repository.name, path: '' }, ...crumbsOf(path)];
  const items = crumbs.map((crumb, index) =>
    element(
      'li',
      {},
      index === crumbs.length - 1
        ? element('span', { 'aria-current': 'location' }, crumb.name)
        : element(
            'a',
            { href: writePlace({ repositoryId: repository.id, branch, path: crumb.path }) },
            crumb.name,
          ),
    ),
  );
  fill(byId('crumbs'), element('ol', {}, ...items));
}

/**
 * @param {View} view
 * @param {(path: string, name: string) => void} save
 */
function entriesNode({ repository, branch, commitId, path, entries }, save) {
  if (commitId === null) return element('p', { class: 'help' }, 'Nothing has been committed here yet.');
  if (entries.length === 0) return element('p', { class: 'help' }, 'This folder is empty.');
  const rows = sortEntries(entries).map(({ name, kind, sizeBytes }) => {
    const inner = joinPath(path, name);
    const label =
      kind === 'folder'
        ? element('a', { href: writePlace({ repositoryId: repository.id, branch, path: inner }) }, `${name}/`)
        : element('span', {}, name);
    const act =
      kind === 'folder'
        ? null
        : button({ class: 'quiet', 'aria-label': `Download ${name}` }, () => save(inner, name), 'Download');
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, label),
      element('td', { class: 'size dim' }, kind === 'folder' ? '' : sizeText(sizeBytes)),
      element('td', { class: 'act' }, act),
    );
  });
  const head = element(
    'tr',
    {},
    element('th', { scope: 'col' }, 'Name'),
    element('th', { scope: 'col', class: 'size' }, 'Size'),
    element('th', { scope: 'col', class: 'act' }, element('span', { class: 'unseen' }, 'Download')),
  );
  return element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows));
}
