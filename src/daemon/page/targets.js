/** The contents of the table of targets, and their order. Everything here is pure. */

import { counted, numberText } from './format.js';

/** @import { DaemonReport } from '../status/status-schema.ts' */

/** @typedef {DaemonReport} Report the answer of `/api/status` */
/** @typedef {Report['targets'][number]} Target */
/** @typedef {Target['state']} TargetState */

/**
 * The severity, which gives the colour, the sign and, for a target, the word in `PLAIN`.
 * @typedef {'ok' | 'warn' | 'bad' | 'held' | 'off'} Tone
 */

/** @typedef {'target' | 'state' | 'verified' | 'changed' | 'files' | 'size'} ColumnName */

/** @typedef {{ readonly column: ColumnName, readonly isDescending: boolean }} Order */

/**
 * The filter on the table of targets; state null for all of them.
 * @typedef {{ readonly search: string, readonly state: TargetState | null }} Selection
 */

/** @typedef {Selection & Order & { readonly page: number }} Choice what the table shows; pages count from 0 */

/** @typedef {{ readonly tone: Tone, readonly rank: number, readonly meaning: string }} StateTraits */

/** The states, the worst first. @type {Readonly<Record<TargetState, StateTraits>>} */
export const STATES = {
  damaged: { tone: 'bad', rank: 0, meaning: 'Its tree or manifest is gone or unreadable.' },
  stalled: { tone: 'held', rank: 1, meaning: 'It failed and needs manual action.' },
  quarantined: { tone: 'bad', rank: 2, meaning: 'This version is refused; another one is tried.' },
  failing: { tone: 'bad', rank: 3, meaning: 'The last attempt failed; the daemon tries again.' },
  drifted: { tone: 'held', rank: 4, meaning: 'Someone changed its published tree.' },
  stale: { tone: 'warn', rank: 5, meaning: 'It was not verified against the service for too long.' },
  held: { tone: 'held', rank: 6, meaning: 'A deletion waits for a person to approve it.' },
  missing: { tone: 'off', rank: 7, meaning: 'The service no longer lists it; its tree is kept for now.' },
  pending: { tone: 'warn', rank: 8, meaning: 'It was never mirrored.' },
  absent: { tone: 'ok', rank: 9, meaning: 'The service has no contents for it yet.' },
  unselected: { tone: 'off', rank: 10, meaning: 'The settings no longer select it; it is kept unchanged.' },
  fresh: { tone: 'ok', rank: 11, meaning: 'It was verified against the service in time.' },
};

const PLAIN = { ok: 'fresh', warn: 'late', bad: 'failing', held: 'needs you', off: 'gone' };

/** The state for people: one of five words, with the precise state as its reason. @param {TargetState} state */
export function wordOf(state) {
  const plain = PLAIN[STATES[state].tone];
  return state === plain || state === 'stale' ? plain : `${plain}: ${state}`;
}

/** Whether this instance does not keep the target fresh. @param {TargetState} state */
export function isLeftAlone(state) {
  return state === 'unselected';
}

/** The columns, in order, with the direction of a first click. @type {readonly { name: ColumnName, title: string, startsDescending: boolean }[]} */
export const COLUMNS = [
  { name: 'target', title: 'Target', startsDescending: false },
  { name: 'state', title: 'State', startsDescending: false },
  { name: 'verified', title: 'Verified', startsDescending: false },
  { name: 'changed', title: 'Changed', startsDescending: true },
  { name: 'files', title: 'Files', startsDescending: true },
  { name: 'size', title: 'Size', startsDescending: true },
];

/** All targets, the worst state first. @type {Choice} */
export const FIRST_CHOICE = { search: '', state: null, column: 'state', isDescending: false, page: 0 };

const collator = new Intl.Collator('en', { numeric: true });

/**
 * Sort keys of a target: null comes last in either direction.
 * @type {Readonly<Record<ColumnName, (target: Target) => string | number | null>>}
 */
const KEYS = {
  target: ({ target }) => target,
  state: ({ state }) => STATES[state].rank,
  // A target that was never verified counts as the oldest.
  verified: ({ verifiedAtMs }) => verifiedAtMs ?? 0,
  changed: ({ changedAtMs }) => changedAtMs,
  files: ({ files }) => files,
  size: ({ sizeBytes }) => sizeBytes,
};

/**
 * The chosen targets, in order; equal ones by name.
 * @param {readonly Target[]} targets
 * @param {Selection & Order} choice
 * @returns {Target[]}
 */
export function arrange(targets, choice) {
  const direction = choice.isDescending ? -1 : 1;
  const keyOf = KEYS[choice.column];
  return targets.filter(matcherOf(choice)).sort((a, b) => {
    const [first, second] = [keyOf(a), keyOf(b)];
    if (first === null || second === null)
      return Number(first === null) - Number(second === null) || byName(a, b);
    return direction * compareKeys(first, second) || byName(a, b);
  });
}

/**
 * A choice as the query of an address, for sharing; an empty text for the default choice.
 * @param {Choice} choice
 * @returns {string}
 */
export function toQuery(choice) {
  const { search, state, column, isDescending, page } = choice;
  const parameters = new URLSearchParams();
  if (search !== '') parameters.set('search', search);
  if (state !== null) parameters.set('state', state);
  if (column !== FIRST_CHOICE.column || isDescending) {
    parameters.set('sort', column);
    parameters.set('direction', isDescending ? 'descending' : 'ascending');
  }
  if (page > 0) parameters.set('page', String(page + 1));
  return parameters.toString();
}

/**
 * The choice in the query of an address; other parts are ignored.
 * @param {string} query
 * @returns {Choice}
 */
export function fromQuery(query) {
  const parameters = new URLSearchParams(query);
  const state = parameters.get('state') ?? '';
  const sort = parameters.get('sort');
  return {
    search: parameters.get('search') ?? '',
    state: Object.hasOwn(STATES, state) ? /** @type {TargetState} */ (state) : null,
    column: COLUMNS.find(({ name }) => name === sort)?.name ?? FIRST_CHOICE.column,
    isDescending: parameters.get('direction') === 'descending',
    page: Math.max(0, Math.floor(Number(parameters.get('page') ?? 1)) - 1 || 0),
  };
}

/**
 * The number of targets in each occurring state, the worst state first.
 * @param {readonly Target[]} targets
 * @returns {{ state: TargetState, count: number }[]}
 */
export function countStates(targets) {
  /** @type {Map<TargetState, number>} */
  const counts = new Map();
  for (const { state } of targets) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts]
    .map(([state, count]) => ({ state, count }))
    .sort((a, b) => STATES[a.state].rank - STATES[b.state].rank);
}

/**
 * The problem of a target, in a few words; null if there is none.
 * @param {Target} target
 * @returns {string | null}
 */
export function troubleOf({ failure, drift, held, restoredAtMs, state, verifiedAtMs, missingWorkbooks }) {
  if (failure !== null) return `${failure.code}: ${failure.message}`;
  if (drift !== null) return `changed on disk: ${driftClause(drift)}`;
  if (held !== null) return `held: ${heldClause(held)}`;
  if (state === 'damaged') return 'its tree or manifest is gone or unreadable';
  if (restoredAtMs !== null) return 'restored from the history';
  if (state === 'missing') return 'missing from the service';
  if (state === 'stale') return verifiedAtMs === null ? 'never verified' : 'not verified in time';
  if (missingWorkbooks.length > 0)
    return `its contents lack ${counted(missingWorkbooks.length, 'listed workbook')}`;
  return null;
}

/**
 * Why a deletion is held, as a clause about its target.
 * @param {NonNullable<Target['held']>} held
 * @returns {string}
 */
export function heldClause({ subject, deletions, of }) {
  switch (subject) {
    case 'target':
      return `the service no longer has it: ${numberText(deletions)} of ${counted(of, 'target')} gone at once`;
    case 'restored':
      return 'it is gone from the service, and was restored from the history';
    case 'files':
      return `the service’s new state would delete ${numberText(deletions)} of its ${counted(of, 'file')}`;
    case 'moved':
      return 'another instance mirrors it now; if that instance shares this directory, start it, otherwise approve the removal of the copy here';
    case 'deselected':
      return `the settings no longer select it, and ${numberText(deletions)} of ${counted(of, 'target')} were deselected at once; it is still mirrored`;
  }
}

/**
 * How a tree differs from its manifest, as a clause.
 * @param {NonNullable<Target['drift']>} drift
 * @returns {string}
 */
export function driftClause({ added, missing, modified, first }) {
  const counts = [
    ...(modified > 0 ? [`${numberText(modified)} modified`] : []),
    ...(missing > 0 ? [`${numberText(missing)} missing`] : []),
    ...(added > 0 ? [`${numberText(added)} added`] : []),
  ];
  return `${counts.join(', ')}, the first is ${JSON.stringify(first)}`;
}

/**
 * Every word of the search must occur in a target's row.
 * @param {Selection} selection
 * @returns {(target: Target) => boolean}
 */
function matcherOf({ search, state }) {
  const words = folded(search)
    .split(/\s+/)
    .filter((word) => word !== '');
  return (target) => {
    if (state !== null && target.state !== state) return false;
    if (words.length === 0) return true;
    const text = folded(
      [target.target, target.repository, target.branch, target.state, troubleOf(target) ?? ''].join(' '),
    );
    return words.every((word) => text.includes(word));
  };
}

/** @param {string} text @returns {string} */
function folded(text) {
  return text.normalize('NFKC').toLowerCase();
}

/** @param {string | number} a @param {string | number} b @returns {number} */
function compareKeys(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b : collator.compare(String(a), String(b));
}

/** @param {Target} a @param {Target} b @returns {number} */
function byName(a, b) {
  return collator.compare(a.target, b.target) || (a.target < b.target ? -1 : 1);
}
