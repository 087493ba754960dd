/** The state of the whole daemon in one word and one sentence. Everything here is pure. */

import { durationText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { isLeftAlone } from './targets.js';

/** @import { Report, Tone } from './targets.js' */

/**
 * The state of the whole.
 * @typedef {object} Overall
 * @property {'ready' | 'not-ready' | 'stale' | 'failing' | 'stuck' | 'starting' | 'stopping' | 'settings-refused' | 'key-refused' | 'unknown'} state
 * @property {Tone} tone
 * @property {string} word for the headline and the title
 * @property {string} sentence
 */

/** The states of targets of which the last attempt failed. */
const FAILING = new Set(['failing', 'quarantined', 'stalled']);

/**
 * Judges a report: the gravest thing gives the word.
 * @param {Report} report
 * @returns {Overall}
 */
export function overallOf(report) {
  return (
    loopState(report) ??
    refusedKey(report) ??
    failedPass(report) ??
    startingState(report) ??
    emptySelection(report) ??
    failingTargets(report) ??
    unreadyTargets(report) ??
    refusedSettings(report) ??
    readyState(report)
  );
}

/**
 * The overall state when the daemon no longer answers: its last answer proves nothing about the present.
 * @param {Overall} last
 * @returns {Overall}
 */
export function unknownState({ word, sentence }) {
  return {
    state: 'unknown',
    tone: 'off',
    word: 'Unknown',
    sentence: `When it last answered: ${word}. ${sentence}`,
  };
}

/** @param {Report} report @returns {Overall | null} */
function loopState({ liveness }) {
  if (!liveness.isAlive) {
    const sentence = `The pass in hand has made no progress for ${durationText(liveness.silentMs)}.`;
    return { state: 'stuck', tone: 'bad', word: 'Stuck', sentence };
  }
  if (liveness.state !== 'stopping') return null;
  return {
    state: 'stopping',
    tone: 'off',
    word: 'Stopping',
    sentence: 'The daemon is shutting down.',
  };
}

/** @param {Report} report @returns {Overall | null} */
function refusedKey({ live }) {
  const refused = refusedCredentials(live.credentials);
  if (refused.length === 0) return null;
  const sentence = `The service refuses ${refused.join(' and ')}. What is mirrored stays readable, and grows old.`;
  return { state: 'key-refused', tone: 'bad', word: 'Key refused', sentence };
}

/** @param {Report['live']['credentials']} credentials @returns {string[]} */
function refusedCredentials({ apiKey, apiToken }) {
  return [
    ...(apiKey.state === 'refused' ? ['the API key'] : []),
    ...(apiToken.state === 'refused' ? ['the API token'] : []),
  ];
}

/** @param {Report} report @returns {Overall | null} */
function failedPass({ live, readiness, targets }) {
  if (live.passes.at(-1)?.result !== 'failed' || readiness.isReady) return null;
  const late = readiness.notReady.length;
  const sentence =
    late === 0
      ? 'The last pass failed.'
      : `The last pass failed, and ${numberText(late)} of ${counted(targets.length, 'target')} cannot be relied on.`;
  return { state: 'failing', tone: 'bad', word: 'Failing', sentence };
}

/** @param {Report} report @returns {Overall | null} */
function startingState({ readiness, targets }) {
  if (readiness.isListed) return null;
  const mirrored = targets.filter(({ state }) => state !== 'pending').length;
  const all = counted(targets.length, 'target');
  const known =
    targets.length === 0
      ? ''
      : mirrored === targets.length
        ? ` ${all} known from before.`
        : ` ${numberText(mirrored)} of ${all} mirrored.`;
  const sentence = `The first pass has not come to its end yet.${known}`;
  return { state: 'starting', tone: 'off', word: 'Starting', sentence };
}

/** @param {Report} report @returns {Overall | null} */
function emptySelection({ readiness }) {
  if (!readiness.selectsNothing) return null;
  const sentence = 'The settings select nothing of what the service lists.';
  return { state: 'not-ready', tone: 'bad', word: 'Not ready', sentence };
}

/** @param {Report} report @returns {Overall | null} */
function failingTargets({ targets, readiness }) {
  const failing = targets.filter(({ state }) => FAILING.has(state)).length;
  if (failing === 0) return null;
  const late = readiness.notReady.filter(({ reason }) => !FAILING.has(reason) && reason !== 'held').length;
  const sentence = `${numberText(failing)} of ${counted(targets.length, 'target')} ${failing === 1 ? 'fails' : 'fail'}. ${
    late === 0 ? 'All were still verified in time.' : `${numberText(late)} cannot be relied on.`
  }`;
  return { state: 'failing', tone: 'bad', word: 'Failing', sentence };
}

/** @param {Report} report @returns {Overall | null} */
function unreadyTargets({ readiness, maxStalenessMs, targets }) {
  const { notReady } = readiness;
  if (notReady.length === 0) return null;
  const old = notReady.filter(({ reason }) => reason === 'stale' || reason === 'never-verified').length;
  const all = counted(targets.length, 'target');
  if (old > 0) {
    const sentence = `${numberText(old)} of ${all} not verified within the last ${durationText(maxStalenessMs)}.`;
    return { state: 'stale', tone: 'warn', word: 'Stale', sentence };
  }
  const held = notReady.filter(({ reason }) => reason === 'held').length;
  if (held === notReady.length) {
    const waits = `${counted(held, 'deletion')} ${held === 1 ? 'waits' : 'wait'} for approval`;
    return { state: 'not-ready', tone: 'warn', word: 'Held', sentence: `${waits}, of ${all}.` };
  }
  const sentence = `${numberText(notReady.length)} of ${all} cannot be relied on: their trees are not what the service has.`;
  return { state: 'not-ready', tone: 'warn', word: 'Not ready', sentence };
}

/** @param {Report} report @returns {Overall | null} */
function refusedSettings({ live }) {
  if (live.settings.problem === null) return null;
  const sentence =
    'The new settings are refused; the old ones stay in force, and all targets are up to date.';
  return { state: 'settings-refused', tone: 'warn', word: 'Settings refused', sentence };
}

/** @param {Report} report @returns {Overall} */
function readyState({ targets, maxStalenessMs, live }) {
  const selected = targets.filter(({ state }) => !isLeftAlone(state)).length;
  const within = `within the last ${durationText(maxStalenessMs)}`;
  const sentence =
    selected === 0
      ? 'The service was asked; there is nothing to mirror.'
      : selected === 1
        ? `The one target was verified against the service ${within}.`
        : `All ${counted(selected, 'target')} were verified against the service ${within}.`;
  // The mirror is as fresh as before: what is the matter with the pass is told once, among the problems.
  return live.passes.at(-1)?.result === 'failed'
    ? { state: 'ready', tone: 'warn', word: 'Ready', sentence: `${sentence} The last pass failed.` }
    : { state: 'ready', tone: 'ok', word: 'Ready', sentence };
}
