/** The matters that a person should know of or act on, the gravest first. Everything here is pure. */

import { durationText, sentence, sizeText } from '../../lib/page/text.js';
import { counted, numberText } from './format.js';
import { heldClause, heldFiles, isLeftAlone, STATES } from './targets.js';

/** @import { Report, Selection, Tone } from './targets.js' */

/**
 * Something that wants attention.
 * @typedef {object} Problem
 * @property {string} key stays the same while the problem does
 * @property {Tone} tone
 * @property {string} title
 * @property {string} text
 * @property {number | null} [nextAtMs] when it is tried again, milliseconds since the epoch
 * @property {string | null} [hint] what can be done about it
 * @property {string | null} [command] that lets it go
 * @property {Selection | null} [selection] the targets that it is about
 */

/** The most held deletions that are listed one by one; of the others, the number is shown. */
const HOLDS_LISTED = 5;

/** Less free room than this share of the disk is worth a word. */
const LOW_DISK_SHARE = 0.05;

/** @type {Readonly<Record<'apiKey' | 'apiToken', string>>} */
export const CREDENTIAL_NAMES = { apiKey: 'API key', apiToken: 'API token' };

/**
 * Everything that wants attention.
 * @param {Report} report
 * @returns {Problem[]}
 */
export function problemsOf(report) {
  return [
    ...stuckLoop(report),
    ...refusedCredentials(report),
    ...failedPass(report),
    ...failures(report),
    ...states(report),
    ...holds(report),
    ...settings(report),
    ...selection(report),
    ...failedWorkbooks(report),
    ...disk(report),
  ];
}

/** @param {Report} report @returns {Problem[]} */
function stuckLoop({ liveness, live }) {
  if (liveness.isAlive) return [];
  const pulling = live.pass?.pulling ?? [];
  const hand = pulling.length === 0 ? '' : ` In hand: ${pulling.slice(0, 3).join(', ')}.`;
  const text = `No progress for ${durationText(liveness.silentMs)}.${hand}`;
  const hint = 'A restart loses nothing.';
  return [{ key: 'stuck', tone: 'bad', title: 'The daemon is stuck', text, hint }];
}

/** @param {Report} report @returns {Problem[]} */
function refusedCredentials({ live }) {
  return /** @type {const} */ (['apiKey', 'apiToken']).flatMap((kind) => {
    const { state, nextAttemptAtMs: nextAtMs } = live.credentials[kind];
    if (state !== 'refused') return [];
    const title = `The service refuses the ${CREDENTIAL_NAMES[kind]}`;
    const text = 'It was revoked, is mistyped, or may not read what is mirrored.';
    const hint = `Check service.${kind}; a new key in the file is used automatically.`;
    return [{ key: `credential-${kind}`, tone: 'bad', title, text, nextAtMs, hint }];
  });
}

/** @param {Report} report @returns {Problem[]} */
function failedPass({ live, readiness }) {
  const last = live.passes.at(-1);
  if (last === undefined || last.result !== 'failed' || last.failure === null) return [];
  const { code, message, hint } = last.failure;
  /** @type {Tone} */
  const tone = readiness.isReady ? 'warn' : 'bad';
  return [{ key: 'pass', tone, title: 'The last pass failed', text: `${code}: ${message}`, hint }];
}

/** Failures by their code, as one cause often fails many targets. @param {Report} report @returns {Problem[]} */
function failures({ targets }) {
  const failing = targets.flatMap(({ target, state, failure }) =>
    failure === null || isLeftAlone(state) ? [] : [{ target, failure }],
  );
  return [...Map.groupBy(failing, ({ failure }) => failure.code)].flatMap(([code, same]) => {
    const [first] = same;
    if (first === undefined) return [];
    const { message, hint } = first.failure;
    const title = same.length === 1 ? `${first.target} fails` : `${counted(same.length, 'target')} fail`;
    const text = same.length === 1 ? `${code}: ${message}` : `${code}, the first: ${message}`;
    const selection = { search: same.length === 1 ? first.target : code, state: null };
    return [{ key: `failure-${code}`, tone: 'bad', title, text, hint, selection }];
  });
}

/**
 * States that no failure and no hold explains.
 * @type {readonly { state: 'damaged' | 'drifted' | 'stale', text: string, hint?: string }[]}
 */
const UNEXPLAINED = [
  {
    state: 'damaged',
    text: 'What was published is gone from the disk; the next pass pulls it again.',
  },
  {
    state: 'drifted',
    text: 'Someone changed what was published; the next full check puts it right.',
    hint: 'SIGHUP to the daemon (systemctl reload workbook-mirror) puts it right now.',
  },
  { state: 'stale', text: 'For too long, nothing says that this is what the service has.' },
];

/** @param {Report} report @returns {Problem[]} */
function states({ targets }) {
  return UNEXPLAINED.flatMap(({ state, ...said }) => {
    const same = targets.filter((target) => target.state === state);
    const [first] = same;
    if (first === undefined) return [];
    const name = same.length === 1 ? first.target : counted(same.length, 'target');
    const title = `${name} ${same.length === 1 ? 'is' : 'are'} ${state}`;
    const { tone } = STATES[state];
    return [{ key: `state-${state}`, tone, title, ...said, selection: { search: '', state } }];
  });
}

/** @param {Report} report @returns {Problem[]} */
function holds({ targets }) {
  const all = targets.flatMap(({ target, state, held, approveCommand: command }) =>
    held === null || isLeftAlone(state) ? [] : [{ target, held, command: command ?? null }],
  );
  /** @type {Problem[]} */
  const listed = all.slice(0, HOLDS_LISTED).map(({ target, held, command }) => ({
    key: `held-${target}`,
    tone: 'held',
    title: `A deletion is held: ${target}`,
    text: `${sentence(heldClause(held))}${heldFiles(held)}`,
    command,
    selection: { search: target, state: null },
  }));
  const rest = all.length - listed.length;
  if (rest <= 0) return listed;
  const title = `${counted(rest, 'more deletion')} ${rest === 1 ? 'is' : 'are'} held`;
  /** @type {Selection} */
  const selection = { search: '', state: 'held' };
  return [...listed, { key: 'held-more', tone: 'held', title, text: 'The table has them all.', selection }];
}

/** @param {Report} report @returns {Problem[]} */
function settings({ live }) {
  const { problem, restartNeeded } = live.settings;
  /** @type {Problem[]} */
  const problems = [];
  if (problem !== null) {
    const title = 'The new settings are refused, the old ones stay';
    problems.push({ key: 'settings', tone: 'warn', title, text: problem.message, hint: problem.hint });
  }
  if (restartNeeded.length > 0) {
    const needs = restartNeeded.length === 1 ? 'This setting' : 'These settings';
    const text = `${needs} changed and will be in force after it: ${restartNeeded.join(', ')}.`;
    problems.push({ key: 'restart', tone: 'warn', title: 'A restart is needed', text });
  }
  return problems;
}

/** @param {Report} report @returns {Problem[]} */
function selection({ live }) {
  return (live.selection?.unmatched ?? []).map(({ setting, pattern, nearest }) => ({
    key: `selection:${setting}:${pattern}`,
    tone: 'warn',
    title: `A pattern of ${setting} matches nothing`,
    text: `The service lists nothing of the name ${pattern}.`,
    hint: nearest === null ? null : `The nearest name is ${nearest}. Letter case counts.`,
  }));
}

/** @param {Report} report @returns {Problem[]} */
function failedWorkbooks({ live }) {
  const count = live.upstream?.failed.count ?? 0;
  if (count === 0) return [];
  const title = `The service failed to process ${counted(count, 'workbook')}`;
  const text = 'What is mirrored of them is what the service has.';
  return [{ key: 'workbooks', tone: 'warn', title, text, hint: 'They are listed under “The service”.' }];
}

/** @param {Report} report @returns {Problem[]} */
function disk({ disk: room }) {
  if (room === null || room.freeBytes >= room.sizeBytes * LOW_DISK_SHARE) return [];
  const share = room.sizeBytes === 0 ? 0 : (100 * room.freeBytes) / room.sizeBytes;
  const text = `${sizeText(room.freeBytes)} are free, ${numberText(Math.floor(share * 10) / 10)} % of ${sizeText(room.sizeBytes)}.`;
  return [{ key: 'disk', tone: 'warn', title: 'The disk is nearly full', text }];
}
