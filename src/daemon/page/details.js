/** The details of one target, below its row. */

import { element } from '../../lib/page/dom.js';
import { sizeText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { commandNode, fact, timeNode } from './nodes.js';
import { driftClause, heldClause, STATES } from './targets.js';

/** @import { Child } from '../../lib/page/dom.js' */
/** @import { Target, Tone } from './targets.js' */

/** How many of the files that would go are named. */
const FILES_NAMED = 10;

/**
 * The details of a target.
 * @param {Target} target
 * @returns {HTMLElement}
 */
export function detailsOf(target) {
  const { failure, drift, held, restoredAtMs } = target;
  return element(
    'div',
    { class: 'details' },
    failure === null
      ? null
      : trouble(
          'bad',
          failure.code,
          [failure.message, failure.hint],
          [
            `Failed ${counted(failure.attempts, 'time')} in a row, for the first time `,
            timeNode(failure.sinceMs),
            ', last ',
            timeNode(failure.lastAtMs),
            '; tried again ',
            timeNode(failure.nextAttemptAtMs),
            '.',
          ],
        ),
    drift === null
      ? null
      : trouble(
          'warn',
          'Changed on disk',
          [`Someone changed the published tree: ${driftClause(drift)}.`],
          ['Found ', timeNode(drift.sinceMs), '. The next full check, or drift: repair, puts it right.'],
        ),
    held === null
      ? null
      : trouble(
          'held',
          'A deletion is held',
          [`It is held, because ${heldClause(held)}.`, namesOf(held.first)],
          [
            'Since ',
            timeNode(held.sinceMs),
            '; looked at again ',
            timeNode(held.nextLookAtMs),
            '. ',
            ...(target.approveCommand === undefined
              ? []
              : ['If it is to go: ', commandNode(target.approveCommand, `details ${target.target}`)]),
          ],
        ),
    restoredAtMs === null
      ? null
      : trouble(
          'warn',
          'Restored',
          ['The tree is from the history; the service has not had it since.'],
          ['Restored ', timeNode(restoredAtMs), '.'],
        ),
    facts(target),
  );
}

/** @param {readonly string[]} files @returns {string | null} */
function namesOf(files) {
  if (files.length === 0) return null;
  const rest = files.length > FILES_NAMED ? ', …' : '';
  return `Files that would go: ${files.slice(0, FILES_NAMED).join(', ')}${rest}.`;
}

/**
 * @param {Tone} tone
 * @param {string} title
 * @param {readonly (string | null)[]} texts
 * @param {readonly Child[]} times
 * @returns {HTMLElement}
 */
function trouble(tone, title, texts, times) {
  return element(
    'div',
    { class: `trouble tone-${tone}` },
    element('h4', {}, title),
    ...texts.map((text) => (text === null ? null : element('p', {}, text))),
    element('p', {}, ...times),
  );
}

/** @param {Target} target @returns {HTMLElement} */
function facts({ state, branch, repository, target, fingerprint, files, sizeBytes, ...times }) {
  const { verifiedAtMs, changedAtMs, checkedAtMs, nextAttemptAtMs, nextFullCheckAtMs } = times;
  return element(
    'dl',
    { class: 'facts' },
    ...fact('State', `${state}: ${STATES[state].meaning}`),
    ...fact('Repository', repository),
    ...fact('Branch', branch),
    ...fact('Below mirror/', target),
    ...fact('Last verified', timeNode(verifiedAtMs)),
    ...fact('Last changed', timeNode(changedAtMs)),
    ...fact('Compared whole', timeNode(checkedAtMs)),
    ...fact('Next attempt', nextAttemptAtMs === null ? '–' : timeNode(nextAttemptAtMs)),
    ...fact('Next full check', nextFullCheckAtMs === null ? '–' : timeNode(nextFullCheckAtMs)),
    ...fact('Contents', `${numberText(files)} files, ${sizeText(sizeBytes)}`),
    ...fact('Fingerprint', fingerprint === null ? '–' : element('code', {}, fingerprint)),
  );
}
