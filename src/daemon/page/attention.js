/** The matters that a person should know of or act on, the gravest first. Everything here is pure. */

import { durationText, sentence, sizeText } from '../../lib/page/text.js';
import { counted } from './format.js';
import { heldClause, isLeftAlone, STATES } from './targets.js';

/** @import { Report, Selection, Tone } from './targets.js' */

/**
 * A matter that needs attention.
 * @typedef {object} Problem
 * @property {Tone} tone
 * @property {string} title constant while the problem lasts
 * @property {string} text
 * @property {number | null} [nextAtMs] when it is tried again, milliseconds since the epoch
 * @property {string | null} [hint] what can be done about it
 * @property {string | null} [command] that approves the deletion
 * @property {Partial<Selection> | null} [selection] the targets that it is about
 */

/** Most held deletions listed individually; the others are counted. */
const HOLDS_LISTED = 5;

/** A smaller share of free space is reported. */
const LOW_DISK_SHARE = 0.05;

/** @type {Readonly<Record<'apiKey' | 'apiToken', string>>} */
export const CREDENTIAL_NAMES = { apiKey: 'API key', apiToken: 'API token' };

/**
 * All matters that need attention.
 * @param {Report} report
 * @returns {Problem[]}
 */
export function problemsOf(report) {
  return [...daemonProblems(report), ...targetProblems(report), ...otherProblems(report)];
}

/** @param {Report} report @returns {Problem[]} */
function daemonProblems({ liveness, live, readiness }) {
  /** @type {Problem[]} */
  const problems = [];
  if (!liveness.isAlive) {
    const text = `No progress for ${durationText(liveness.silentMs)}.`;
    problems.push({ tone: 'bad', title: 'The daemon is stuck', text, hint: 'A restart loses nothing.' });
  }
  for (const kind of /** @type {const} */ (['apiKey', 'apiToken'])) {
    const { state, nextAttemptAtMs: nextAtMs } = live.credentials[kind];
    if (state !== 'refused') continue;
    const title = `The service refuses the ${CREDENTIAL_NAMES[kind]}`;
    const text = 'It was revoked or mistyped, or has no permission to read.';
    const hint = `Check service.${kind}; a new key in the file is used automatically. After a new systemd credential, restart: systemctl restart workbook-mirror`;
    problems.push({ tone: 'bad', title, text, nextAtMs, hint });
  }
  const failure = live.passes.at(-1)?.failure ?? null;
  if (failure !== null) {
    const { code, message, hint } = failure;
    const tone = readiness.isReady ? 'warn' : 'bad';
    problems.push({ tone, title: 'The last pass failed', text: `${code}: ${message}`, hint });
  }
  return problems;
}

/**
 * States without a failure or hold that explains them.
 * @type {Readonly<Record<string, { word: string, text: string, hint?: string }>>}
 */
const UNEXPLAINED = {
  damaged: { word: 'damaged', text: 'Its tree or manifest is gone or unreadable; it is pulled again.' },
  drifted: {
    word: 'changed by someone',
    text: 'The next full check repairs its tree; `workbook-mirror poll` does so now.',
  },
  stale: { word: 'late', text: 'It was not verified against the service for too long.' },
};

/** Failures by their code, as one cause often fails many targets; then states; then held deletions. @param {Report} report @returns {Problem[]} */
function targetProblems({ targets }) {
  const own = targets.filter(({ state }) => !isLeftAlone(state));
  const failing = own.filter(({ failure }) => failure !== null);
  const failures = [...Map.groupBy(failing, ({ failure }) => failure?.code ?? '')].map(([code, same]) => {
    const { message = '', hint = null } = same[0]?.failure ?? {};
    const search = same.length === 1 ? (same[0]?.target ?? '') : code;
    return {
      tone: /** @type {const} */ ('bad'),
      title: titleOf(same, 'fails', 'fail'),
      text: `${code}: ${message}`,
      hint,
      selection: { search },
    };
  });
  const unexplained = [...Map.groupBy(own, ({ state }) => state)].flatMap(([state, same]) => {
    const said = UNEXPLAINED[state];
    if (said === undefined) return [];
    const title = titleOf(same, `is ${said.word}`, `are ${said.word}`);
    return [{ tone: STATES[state].tone, title, ...said, selection: { state } }];
  });
  const held = own.filter((target) => target.held !== null);
  /** @type {Problem[]} */
  const holds = held.slice(0, HOLDS_LISTED).map((target) => ({
    tone: 'held',
    title: `A deletion is held: ${target.target}`,
    text: target.held === null ? '' : sentence(heldClause(target.held)),
    command: target.approveCommand ?? null,
    selection: { search: target.target },
  }));
  if (held.length > HOLDS_LISTED) {
    const title = `${counted(held.length - HOLDS_LISTED, 'more deletion')} held`;
    holds.push({ tone: 'held', title, text: 'The table lists all.', selection: { state: 'held' } });
  }
  return [...failures, ...unexplained, ...holds];
}

/** @param {Report['targets']} targets @param {string} one @param {string} many @returns {string} */
function titleOf(targets, one, many) {
  const [first] = targets;
  return targets.length === 1 && first !== undefined
    ? `${first.target} ${one}`
    : `${counted(targets.length, 'target')} ${many}`;
}

/** @param {Report} report @returns {Problem[]} */
function otherProblems({ live, disk }) {
  /** @type {Problem[]} */
  const problems = [];
  const { problem, restartNeeded } = live.settings;
  if (problem !== null) {
    const title = 'The new settings are refused, the old ones stay';
    problems.push({ tone: 'warn', title, text: problem.message, hint: problem.hint });
  }
  if (restartNeeded.length > 0) {
    const text = `These changed settings wait for it: ${restartNeeded.join(', ')}.`;
    problems.push({ tone: 'warn', title: 'A restart is needed', text });
  }
  for (const { setting, pattern, nearest } of live.selection?.unmatched ?? []) {
    const text = `The service lists nothing named ${pattern}.`;
    const hint = nearest === null ? null : `The nearest name is ${nearest}. Letter case counts.`;
    problems.push({ tone: 'warn', title: `A pattern of ${setting} matches nothing`, text, hint });
  }
  const failed = live.upstream?.failed.count ?? 0;
  if (failed > 0) {
    const title = `The service failed to process ${counted(failed, 'workbook')}`;
    problems.push({
      tone: 'warn',
      title,
      text: 'They are mirrored unchanged, and listed below the table.',
    });
  }
  if (disk !== null && disk.freeBytes < disk.sizeBytes * LOW_DISK_SHARE) {
    const text = `${sizeText(disk.freeBytes)} are free of ${sizeText(disk.sizeBytes)}.`;
    problems.push({ tone: 'warn', title: 'The disk is nearly full', text });
  }
  return problems;
}
