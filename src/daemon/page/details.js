/** The details of one target, below its row. */

import { element } from './dom.js';
import { sizeText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { fact, timeNode } from './nodes.js';
import { driftClause, heldClause, STATES, wordOf } from './targets.js';

/** @import { Target } from './targets.js' */

/** Most files to be deleted that are named. */
const FILES_NAMED = 10;

/**
 * The details of a target.
 * @param {Target} target
 * @returns {HTMLElement}
 */
export function detailsOf(target) {
  const { state, branch, repository, fingerprint, files, sizeBytes } = target;
  const { verifiedAtMs, changedAtMs, checkedAtMs, nextFullCheckAtMs } = target;
  return element(
    'dl',
    { class: 'facts details' },
    ...fact('State', `${wordOf(state)}. ${STATES[state].meaning}`),
    ...troubles(target),
    ...fact('Repository', repository),
    ...fact('Branch', branch),
    ...fact('Below mirror/', target.target),
    ...fact('Contents', `${numberText(files)} files, ${sizeText(sizeBytes)}`),
    ...fact('Last verified', timeNode(verifiedAtMs)),
    ...fact('Last changed', timeNode(changedAtMs)),
    ...fact('Last full check', timeNode(checkedAtMs)),
    ...fact('Next full check', nextFullCheckAtMs === null ? '–' : timeNode(nextFullCheckAtMs)),
    ...fact('Fingerprint', fingerprint === null ? '–' : element('code', {}, fingerprint)),
  );
}

/** @param {Target} target @returns {HTMLElement[]} */
function troubles({ failure, drift, held, restoredAtMs, approveCommand }) {
  /** @type {HTMLElement[]} */
  const facts = [];
  if (failure !== null) {
    const { code, message, hint, attempts, sinceMs, nextAttemptAtMs } = failure;
    facts.push(
      ...fact('Failure', `${code}: ${message} ${hint ?? ''}`),
      ...fact('Failing', `${counted(attempts, 'time')} in a row, since `, timeNode(sinceMs)),
      ...fact('Tried again after', timeNode(nextAttemptAtMs, 'clock')),
    );
  }
  if (drift !== null)
    facts.push(...fact('Changed on disk', `${driftClause(drift)}, found `, timeNode(drift.sinceMs)));
  if (held !== null) {
    const rest = held.first.length > FILES_NAMED ? ', …' : '';
    facts.push(
      ...fact('Held', `because ${heldClause(held)}, since `, timeNode(held.sinceMs)),
      ...fact('Would be deleted', `${held.first.slice(0, FILES_NAMED).join(', ')}${rest}`),
      ...fact('Looked at again after', timeNode(held.nextLookAtMs, 'clock')),
      ...fact('Approve by', element('code', {}, approveCommand ?? 'workbook-mirror approve')),
    );
  }
  if (restoredAtMs !== null) facts.push(...fact('Restored', 'from the history ', timeNode(restoredAtMs)));
  return facts;
}
