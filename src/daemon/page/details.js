/** The details of one target, below its row. */

import { element } from '../../lib/page/dom.js';
import { sizeText } from '../../lib/page/text.js';
import { commandNode } from './copy.js';
import { timeNode } from './times.js';
import { counted, numberText } from './format.js';
import { driftClause, heldClause, STATES } from './targets.js';

/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Target } from './targets.js' */

/**
 * The details of a target.
 * @param {Target} target
 * @param {(text: string) => void} announce
 * @returns {HTMLElement}
 */
export function detailsOf(target, announce) {
  return element('div', { class: 'details' }, ...troubles(target, announce), facts(target));
}

/** @param {Target} target @param {(text: string) => void} announce @returns {Child[]} */
function troubles(target, announce) {
  const { failure, drift, held, restoredAtMs } = target;
  return [
    failure === null
      ? null
      : trouble('bad', failure.code, failure.message, failure.hint, [
          `Failed ${counted(failure.attempts, 'time')} in a row, for the first time `,
          timeNode(failure.sinceMs),
          ', last ',
          timeNode(failure.lastAtMs),
          '; tried again ',
          timeNode(failure.nextAttemptAtMs),
          '.',
        ]),
    drift === null
      ? null
      : trouble(
          'warn',
          'Changed on disk',
          `Someone changed the published tree: ${driftClause(drift)}.`,
          null,
          ['Found ', timeNode(drift.sinceMs), '. The next full check, or drift: repair, puts it right.'],
        ),
    held === null
      ? null
      : trouble('held', 'A deletion is held', `It is held, because ${heldClause(held)}.`, null, [
          'Since ',
          timeNode(held.sinceMs),
          '; looked at again ',
          timeNode(held.nextLookAtMs),
          '. ',
          ...approval(target, announce),
        ]),
    restoredAtMs === null
      ? null
      : trouble(
          'warn',
          'Restored',
          'A person brought the tree back from the history; the service has not had it since.',
          null,
          ['Restored ', timeNode(restoredAtMs), '.'],
        ),
  ];
}

/** @param {Target} target @param {(text: string) => void} announce @returns {Child[]} */
function approval({ approveCommand, target }, announce) {
  if (approveCommand === undefined) return [];
  return ['If it is to go: ', commandNode(approveCommand, { key: `details ${target}`, announce })];
}

/**
 * @param {'bad' | 'warn' | 'held'} tone
 * @param {string} title
 * @param {string} text
 * @param {string | null} hint
 * @param {Child[]} times
 * @returns {HTMLElement}
 */
function trouble(tone, title, text, hint, times) {
  return element(
    'div',
    { class: `trouble tone-${tone}` },
    element('h4', {}, title),
    element('p', {}, text),
    hint === null ? null : element('p', { class: 'hint' }, hint),
    element('p', { class: 'dim' }, ...times),
  );
}

/** @param {Target} target @returns {HTMLElement} */
function facts(target) {
  const { state, branch, repository, fingerprint } = target;
  return element(
    'dl',
    { class: 'facts' },
    ...fact('State', `${state}: ${STATES[state].meaning}`),
    ...fact('Repository', repository),
    ...fact('Branch', branch),
    ...fact('Below mirror/', target.target),
    ...fact('Last verified', timeNode(target.verifiedAtMs)),
    ...fact('Last changed', timeNode(target.changedAtMs)),
    ...fact('Compared whole', timeNode(target.checkedAtMs)),
    ...fact('Next attempt', target.nextAttemptAtMs === null ? '–' : timeNode(target.nextAttemptAtMs)),
    ...fact('Next full check', target.nextFullCheckAtMs === null ? '–' : timeNode(target.nextFullCheckAtMs)),
    ...fact('Contents', `${numberText(target.files)} files, ${sizeText(target.sizeBytes)}`),
    ...fact('Fingerprint', fingerprint === null ? '–' : element('code', {}, fingerprint)),
  );
}

/**
 * A term with what is said of it, for a `dl`.
 * @param {string} term
 * @param {...Child} said
 * @returns {HTMLElement[]}
 */
export function fact(term, ...said) {
  return [element('dt', {}, term), element('dd', {}, ...said)];
}
