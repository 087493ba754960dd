/** The state of the whole daemon in one word and one sentence. Everything here is pure. */

import { durationText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { isLeftAlone } from './targets.js';

/** @import { Report, Tone } from './targets.js' */

/** @typedef {{ readonly tone: Tone, readonly word: string, readonly sentence: string }} Overall */

/** The states of targets whose last attempt failed. @type {ReadonlySet<string>} */
const FAILING = new Set(['failing', 'quarantined', 'stalled']);

/**
 * Judges a report: the gravest problem decides the word.
 * @param {Report} report
 * @returns {Overall}
 */
export function overallOf(report) {
  return daemonState(report) ?? mirrorState(report) ?? readyState(report);
}

/**
 * The overall state when the daemon does not answer: its last answer proves nothing about the present.
 * @param {Overall} last
 * @returns {Overall}
 */
export function unknownState({ word, sentence }) {
  return { tone: 'off', word: 'Unknown', sentence: `When it last answered: ${word}. ${sentence}` };
}

/** @param {Report} report @returns {Overall | null} */
function daemonState({ liveness, live, readiness, targets }) {
  if (!liveness.isAlive) {
    const sentence = `The current pass has made no progress for ${durationText(liveness.silentMs)}.`;
    return { tone: 'bad', word: 'Stuck', sentence };
  }
  if (liveness.state === 'stopping')
    return { tone: 'off', word: 'Stopping', sentence: 'The daemon is shutting down.' };
  const { apiKey, apiToken } = live.credentials;
  const refused = [
    ...(apiKey.state === 'refused' ? ['the API key'] : []),
    ...(apiToken.state === 'refused' ? ['the API token'] : []),
  ];
  if (refused.length > 0) {
    const sentence = `The service refuses ${refused.join(' and ')}. The mirror stays readable, but becomes outdated.`;
    return { tone: 'bad', word: 'Key refused', sentence };
  }
  if (live.passes.at(-1)?.result === 'failed' && !readiness.isReady)
    return {
      tone: 'bad',
      word: 'Failing',
      sentence: `The last pass failed. ${unreliable(readiness, targets)}`.trim(),
    };
  if (readiness.isListed) return null;
  const mirrored = targets.filter(({ state }) => state !== 'pending').length;
  const known =
    targets.length === 0 ? '' : ` ${numberText(mirrored)} of ${counted(targets.length, 'target')} mirrored.`;
  return { tone: 'off', word: 'Starting', sentence: `The first pass has not finished yet.${known}` };
}

/** @param {Report} report @returns {Overall | null} */
function mirrorState({ readiness, targets, maxStalenessMs }) {
  const { notReady, selectsNothing, stateProblem } = readiness;
  if (stateProblem !== null) return { tone: 'bad', word: 'Not ready', sentence: stateProblem };
  if (selectsNothing) {
    const sentence = 'The settings select nothing that the service lists.';
    return { tone: 'bad', word: 'Not ready', sentence };
  }
  const all = counted(targets.length, 'target');
  const failing = targets.filter(({ state }) => FAILING.has(state)).length;
  if (failing > 0) {
    const sentence = `${numberText(failing)} of ${all} ${failing === 1 ? 'fails' : 'fail'}.`;
    return { tone: 'bad', word: 'Failing', sentence };
  }
  if (notReady.length === 0) return null;
  const old = notReady.filter(({ reason }) => reason === 'stale' || reason === 'never-verified').length;
  if (old > 0) {
    const sentence = `${numberText(old)} of ${all} not verified within the last ${durationText(maxStalenessMs)}.`;
    return { tone: 'warn', word: 'Stale', sentence };
  }
  const held = notReady.filter(({ reason }) => reason === 'held').length;
  if (held < notReady.length)
    return { tone: 'warn', word: 'Not ready', sentence: unreliable(readiness, targets) };
  const waits = `${counted(held, 'deletion')} ${held === 1 ? 'waits' : 'wait'} for approval`;
  return { tone: 'warn', word: 'Held', sentence: `${waits}, of ${all}.` };
}

/** @param {Report['readiness']} readiness @param {Report['targets']} targets @returns {string} */
function unreliable({ notReady }, targets) {
  if (notReady.length === 0) return '';
  return `${numberText(notReady.length)} of ${counted(targets.length, 'target')} cannot be relied on.`;
}

/** @param {Report} report @returns {Overall} */
function readyState({ targets, maxStalenessMs, live }) {
  if (live.settings.problem !== null) {
    const sentence =
      'The new settings are refused; the old ones stay in force, and all targets are up to date.';
    return { tone: 'warn', word: 'Settings refused', sentence };
  }
  const selected = targets.filter(({ state }) => !isLeftAlone(state)).length;
  const sentence =
    selected === 0
      ? 'The service answered; there is nothing to mirror.'
      : `${selected === 1 ? 'The one target was' : `All ${counted(selected, 'target')} were`} verified against the service within the last ${durationText(maxStalenessMs)}.`;
  // The mirror is still fresh: the reason for the failure appears once, among the problems.
  return live.passes.at(-1)?.result === 'failed'
    ? { tone: 'warn', word: 'Ready', sentence: `${sentence} The last pass failed.` }
    : { tone: 'ok', word: 'Ready', sentence };
}
