import type { Command } from 'commander';
import { driftSentence, heldSentence, DAMAGED } from '../../app/messages.ts';
import { firstOf } from '../../app/target-names.ts';
import { plainState, stateText } from '../../app/target-status.ts';
import { counted, oneLine, utcTime, withHint } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { missingSentence } from '../../mirror/plan/contradictions.ts';
import { queuedSinceMs } from '../../mirror/plan/record.ts';
import { type Lines, type Outcome, textOf, under } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { firstLine } from './differences.ts';
import { type Answer, type Explanation, why } from './explanation.ts';

/** `why` */
export async function runWhy(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const { settings, sources, configFile } = settingsOf(command, ['directory']);
  const isScheduleKnown = configFile !== undefined || sources['schedule']?.kind !== 'default';
  const answer = await why(settings, asked, isScheduleKnown);
  return { data: answer, text: () => describeExplanation(answer) };
}

/** Describes the answer of `why` to a person. */
export function describeExplanation(answer: Answer): TerminalText {
  if ('places' in answer) {
    const lines = answer.places.map(({ target, path }) => `${target}/${path}`);
    const sentence = `${answer.file} is in ${counted(lines.length, 'place')}`;
    return textOf(under(`${sentence}; name one of them:`, firstOf(lines)));
  }
  if ('retired' in answer) {
    const { target, leftAtMs } = answer.retired;
    return textOf(
      `${target} is no longer mirrored: it left the mirror at ${utcTime(leftAtMs)}.`,
      `  what is kept of it:                    ${ownCommand('history list', target)}`,
      `  to restore it, with no daemon running: ${ownCommand('history restore', target)}`,
    );
  }
  return describeTarget(answer);
}

function describeTarget(explanation: Explanation): TerminalText {
  const { target, record } = explanation;
  const { state } = target;
  const text = stateText(state);
  const isAlsoLate = target.isStale && state !== 'damaged' && plainState(state) !== 'late';
  return textOf(
    `${target.target} ${text.startsWith('needs') ? '' : 'is '}${text}${isAlsoLate ? ', and is late' : ''}.`,
    `  repository ${target.repository}, branch ${target.branch}, ${counted(target.files, 'file')}`,
    `  verified ${timeOf(target.verifiedAtMs)}, changed ${timeOf(target.changedAtMs)}, last full check ${timeOf(target.checkedAtMs)}`,
    target.missingWorkbooks.length > 0 && `  warning: ${missingSentence(target.missingWorkbooks)}`,
    describeFile(explanation),
    '',
    record.decisions.length === 0
      ? 'No decision is on record.'
      : 'Decisions, the latest first, each with the time when it was first taken:',
    record.decisions.map(
      ({ firstAtMs, kind, reason, result }) => `  ${timeOf(firstAtMs)}  ${kind} (${reason}): ${result}`,
    ),
    '',
    'Next:',
    describeNext(explanation),
  );
}

function timeOf(timeMs: number | null): string {
  return timeMs === null ? 'never' : utcTime(timeMs);
}

function describeFile({ file, path, target }: Explanation): Lines {
  if (path === null) return null;
  if (file === null) return `  ${path}: not in the published tree`;
  const { workbook } = file;
  const message = firstLine(workbook?.message ?? '');
  return [
    `  ${path}: ${file.sizeBytes} bytes, sha256 ${file.sha256}, modified ${utcTime(file.mtimeMs)}`,
    target.drift !== null &&
      `    as it was published; someone changed the tree since then: \`${ownCommand('verify', target.target)}\` shows which files differ`,
    workbook === undefined
      ? `    not in the service's list of workbooks for ${target.branch}: it changes only when the contents are pulled`
      : [
          `    version ${workbook.versionId} of ${workbook.createdAt ?? 'unknown time'} by ${workbook.author ?? 'unknown'}`,
          message !== '' && `    ${message}`,
        ],
  ];
}

function describePolls({ nextPassAtMs, isAttended }: Explanation): string {
  if (isAttended === false)
    return `  no daemon runs: \`${ownCommand('sync')}\` polls the versions now, \`${ownCommand('run')}\` on the schedule`;
  if (nextPassAtMs === null)
    return '  the versions are polled on the schedule of the daemon, which is not in these settings';
  const isUnsure = isAttended === null ? ', if a daemon runs' : '';
  return `  the versions are polled at ${utcTime(nextPassAtMs)}${isUnsure}`;
}

/** How the tree on disk differs from the published one, if that is known. */
function describeTree({ target: { target, state, drift, held }, record }: Explanation): Lines {
  if (state === 'damaged')
    return `  ${DAMAGED}${record.missingPasses === 0 ? ': the next pass pulls it again' : ''}`;
  if (drift === null) return null;
  return [
    `  changed by someone, seen at ${utcTime(drift.sinceMs)}: ${driftSentence(drift)}`,
    held?.subject === 'files'
      ? '  it is repaired once the held deletion is approved, or undone in the service'
      : `  the next full check repairs it, or now \`${ownCommand('poll', target)}\``,
  ];
}

function describeNext(explanation: Explanation): Lines {
  const queuedMs = queuedSinceMs(explanation.record);
  const { target: name, failure, held, nextFullCheckAtMs } = explanation.target;
  const { passFailure, isApproved } = explanation;
  return [
    passFailure !== null && `  ! the last pass failed: ${passFailure.code}: ${withHint(passFailure)}`,
    queuedMs !== null && `  queued since ${utcTime(queuedMs)} to be pulled for the first time`,
    describePolls(explanation),
    nextFullCheckAtMs !== null && `  next full check after ${utcTime(nextFullCheckAtMs)}`,
    describeTree(explanation),
    held !== null && [
      `  held since ${utcTime(held.sinceMs)}, because ${heldSentence(held)}`,
      held.first.map((file) => `    ${file}`),
      held.subject === 'files' &&
        held.first.length < held.deletions &&
        `    … \`${ownCommand('diff --upstream', name)}\` lists all of them`,
      isApproved
        ? `  approved: the next pass carries it out; \`${ownCommand('poll')}\` makes one now`
        : `  to approve: ${ownCommand('approve', name)}`,
    ],
    failure !== null && [
      `  ${failure.code} (${failure.attempts} in a row since ${timeOf(failure.sinceMs)}): ${oneLine(failure.message)}`,
      failure.hint !== null && `  ${failure.hint}`,
      `  it is tried again after ${timeOf(failure.nextAttemptAtMs)}${failure.action === 'quarantine' ? ', when its versions change,' : ''} or at once with \`${ownCommand('retry', name)}\``,
    ],
  ];
}
