import type { DriftSummary } from '../mirror/plan/record.ts';
import type { HeldDeletion } from '../mirror/plan/guard.ts';
import type { ApprovalMark } from '../mirror/store/manifest.ts';
import { describeAmount } from '../lib/time/gauge.ts';
import type { PullProgress, PassFinished, TargetPulled } from '../mirror/pass/events.ts';
import { counted, partsOf, roughDuration, roughSize, utcTime, withHint } from '../lib/text/humanize.ts';
import type { UnmatchedPattern } from '../mirror/plan/selection.ts';
import { holdRule } from '../mirror/plan/actions.ts';
import type { EventFields, EventName } from './events.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { escaped, type TerminalText } from '../lib/text/terminal-text.ts';

/** Why a deletion is held, as a clause about its target. */
export function heldSentence({ subject, deletions, of }: HeldDeletion): string {
  switch (subject) {
    case 'target':
      return `the service no longer has it: ${deletions} of ${counted(of, 'target')} gone at once`;
    case 'restored':
      return 'it is gone from the service, and was restored from the history';
    case 'files':
      return `the service's new state would delete ${deletions} of its ${counted(of, 'file')}`;
    case 'moved':
      return 'another instance mirrors it now; if that instance shares this directory, start it, otherwise approve the removal of the copy here';
    case 'deselected':
      return `the settings no longer select it, and ${deletions} of ${counted(of, 'target')} were deselected at once; it is still mirrored`;
  }
}

/** An approval that is on record, as a clause. */
export function approvalSentence({ approvedBy, approvedAtMs, isByWord }: ApprovalMark): string {
  return `approved by ${approvedBy}${isByWord ? ', as the command says,' : ''} at ${utcTime(approvedAtMs)}`;
}

/** How many of the files that would go are named in a sentence. */
const FILES_NAMED = 3;

/** The first of the files that would go, as a sentence after a space; empty if none is known. */
function heldFilesSentence({ first }: { readonly first: readonly string[] }): string {
  if (first.length === 0) return '';
  const rest = first.length > FILES_NAMED ? ', …' : '';
  return ` Files that would go: ${first.slice(0, FILES_NAMED).join(', ')}${rest}.`;
}

/** A clause that says that a pattern of the settings selects nothing. */
export function unmatchedSentence({ setting, pattern, nearest }: UnmatchedPattern): string {
  const meant = nearest === null ? '' : `; the nearest name is ${JSON.stringify(nearest)}`;
  return `${setting}: ${JSON.stringify(pattern)} matches nothing that the service lists${meant}`;
}

/** The clause about a target without a tree, or without a manifest that can be used. */
export const DAMAGED = 'its tree or manifest is gone or unreadable';

/** How a tree differs from its manifest, as a clause. */
export function driftSentence({ added, missing, modified, first }: DriftSummary): string {
  if (first === '.' && missing > 0) return 'the tree is gone from the disk';
  return `${countedChanges({ modified, missing, added })}, the first is ${JSON.stringify(first)}`;
}

/** The phase and progress of a pull, as a clause without its target. */
export function describePhase(pull: PullProgress): string {
  return pull.doneBytes === 0 && pull.totalBytes === null
    ? pull.phase
    : `${pull.phase} ${describeAmount(pull)}`;
}

/** A sentence for every event; the compiler checks that none is missing. */
const SENTENCES: { readonly [Name in EventName]: (fields: EventFields[Name]) => string } = {
  'daemon.started': (event) =>
    `workbook-mirror ${event.version} mirrors ${event.service} into ${event.directory}, on the schedule ${event.schedule} (${event.timezone})`,
  'daemon.scheduled': (event) => `next pass at ${utcTime(event.nextPassAtMs)}`,
  'daemon.stopping': (event) => `stopping on ${event.signal}`,
  'daemon.stopped': () => 'stopped',
  'pass.started': (event) => `pass started (${event.trigger})`,
  'pass.planned': (event) =>
    `plan: pull ${event.pull}, keep ${event.keep}, hold ${event.hold}, retire ${event.retire}`,
  'pass.finished': describePass,
  'pass.failed': (event) => `pass failed: ${withHint(event)}`,
  'pass.abandoned': () => 'pass abandoned',
  'listing.read': (event) =>
    `the service lists ${counted(event.repositories, 'repository', 'repositories')}${event.workbooks === null ? '' : ` and ${counted(event.workbooks, 'workbook')}`}`,
  'listing.problem': (event) => event.problem,
  'selection.checked': (event) =>
    `the settings select ${counted(event.selected, 'target')} of ${counted(event.repositories, 'repository', 'repositories')}`,
  'selection.unmatched': unmatchedSentence,
  'selection.empty': (event) =>
    `the settings select nothing of the ${counted(event.repositories, 'repository', 'repositories')} that the service lists: the mirror is not ready. ${event.unmatched.map((each) => `${unmatchedSentence(each)}. `).join('')}Check repositories, branches and targets.`,
  'target.started': (event) => `${event.target}: pulling (${event.reason})`,
  'target.slow': (event) =>
    `${event.target}: its pull takes long (since ${utcTime(event.startedAtMs)}); other targets do not wait for it`,
  'target.slow_ended': (event) =>
    `${event.target}: the slow pull ended after ${roughDuration(event.durationMs)} (${event.result})`,
  'target.pulled': (event) => `${event.target}: ${describePull(event)}`,
  'target.moved': (event) => `${event.target}: moved here from ${event.from}, as its repository was renamed`,
  'target.retired': (event) => `${event.target}: its tree moved to history/ (${event.reason})`,
  'target.held': (event) =>
    `${event.target} ${holdRule(event.reason).says}${event.untilMs === null ? '' : ` (until ${utcTime(event.untilMs)})`}`,
  'deletion.held': ({ target, ...held }) =>
    `${target}: held, because ${heldSentence(held)}.${heldFilesSentence(held)} To approve: ${ownCommand('approve', target)}`,
  'deletion.approved': (event) =>
    `${event.target}: deleting ${event.subject === 'files' ? 'its files' : 'the target'}, as approved`,
  'target.missing': (event) =>
    `${event.target}: missing from ${counted(event.passes, 'complete list')}; kept for now`,
  'target.absent': (event) => `${event.target}: the service has no contents there (yet)`,
  'target.failed': (event) => `${event.target}: ${withHint(event)}`,
  'target.drifted': ({ target, ...drift }) =>
    `${target}: someone changed the published tree: ${driftSentence(drift)}`,
  'target.whole': (event) => `${event.target}: the published tree matches its manifest again`,
  'target.lost': (event) =>
    `${event.target}: someone removed its tree and its manifest; it is pulled again if the service has it`,
  'inventory.damaged': (event) =>
    `inventory.json cannot be used: ${event.problem}; the pass writes it again, but cannot detect lost targets this time`,
  'drift.unwatched': (event) =>
    `some published trees cannot be watched; each pass checks them instead: ${withHint(event)}`,
  'target.skipped_entries': (event) =>
    `${event.target}: left out ${counted(event.count, 'entry', 'entries')} (symbolic links and special files are not mirrored), the first is ${JSON.stringify(event.first)}`,
  'upstream.workbook_failed': (event) =>
    `the service failed to process ${event.workbookId} on ${event.branch}: ${counted(event.count, 'failure')} at version ${event.versionId}`,
  'upstream.workbook_recovered': (event) =>
    `the service has processed ${event.workbookId} on ${event.branch} at version ${event.versionId}`,
  'history.pruned': (event) => `history/${event.entry}: removed from the history`,
  'publish.recovered': (event) => `${event.target}: completed the publish that was interrupted`,
  'publish.fallback': (event) => `the file system of ${event.directory} ${event.limit}`,
  'publish.sweep_failed': (event) => `replaced trees cannot be removed: ${withHint(event)}`,
  'service.retry': (event) => {
    const from = event.fromBytes === 0 ? '' : `, continuing after ${roughSize(event.fromBytes)}`;
    return `trying again in ${roughDuration(event.delayMs)}${from}: ${event.message}`;
  },
  'credentials.refused': (event) =>
    `the service refuses every key of service.${event.credential}; tried again after ${utcTime(event.nextAttemptAtMs)}, or as soon as a key file changes; after a new systemd credential, restart: systemctl restart workbook-mirror`,
  'credentials.accepted': (event) =>
    event.key === 1
      ? `the service accepts the key of service.${event.credential}`
      : `the service accepts key ${event.key} of service.${event.credential}, and refuses the earlier ones`,
  'settings.reloaded': (event) =>
    event.changed.length === 0
      ? 'settings read again: nothing changed'
      : `settings read again; changed: ${event.changed.join(', ')}`,
  'settings.refused': (event) => `the new settings are refused, the old ones stay: ${withHint(event)}`,
  'settings.restart_needed': (event) =>
    `these settings changed, and take effect after a restart: ${event.settings.join(', ')}`,
  'settings.restart_unneeded': () => 'no changed setting needs a restart any more',
  'log.level_changed': (event) => `the log level is ${event.level} now`,
  'http.listening': (event) => `status page, health and metrics at ${event.address}`,
  'http.unavailable': (event) =>
    `no status page, health or metrics for now; the port is tried again: ${withHint(event)}`,
  'http.failed': (event) => `answering ${event.path ?? 'a connection'} failed: ${withHint(event)}`,
  'http.unprotected': (event) =>
    `anyone who reaches ${event.address} can read names, times and errors of targets: set http.token, or listen on loopback`,
  'lease.waited': (event) =>
    `publishing waits for the lease of ${event.holder}, at most until ${utcTime(event.untilMs)}`,
  'hook.finished': (event) =>
    `${event.target}: the hook ${event.hook} is done, in ${roughDuration(event.durationMs)}`,
  'hook.failed': (event) =>
    `${event.target === null ? '' : `${event.target}: `}the hook ${event.hook} failed: ${withHint(event)}`,
  'notification.failed': (event) =>
    `the ${event.to} was not reached, attempt ${event.attempts}: ${withHint(event)}`,
  'loop.stuck': (event) => `the current pass has made no progress for ${roughDuration(event.silentMs)}`,
  'locks.unshared': (event) =>
    `${event.setting}: ${event.directory} is on ${event.fileSystem}, where other machines do not see the locks of this one: instances on two machines would write to it at once. Keep them on one machine, or use a file system that shares its locks.`,
  'standby.began': (event) => `on standby until the other instance ends: ${event.message}`,
  'standby.ended': (event) =>
    `the other instance ended: took over in ${roughDuration(event.takeoverMs)}, after ${roughDuration(event.waitedMs)} on standby`,
  'state.reset': (event) => `the state cache starts empty: ${event.reason}`,
  'control.unavailable': (event) => `commands cannot reach this daemon: ${withHint(event)}`,
  'state.failed': withHint,
  'log.failed': withHint,
  'log.resumed': (event) => `the log is written again; ${counted(event.droppedLines, 'line')} were dropped`,
  'state.recovered': () => 'the state cache answers again',
};

/** One readable sentence for an event. */
export function describeEvent<Name extends EventName>(
  event: { readonly name: Name } & EventFields[Name],
): TerminalText {
  return escaped(SENTENCES[event.name](event));
}

function describePull(pulled: TargetPulled): string {
  const cost = `${roughSize(pulled.downloadedBytes)} in ${roughDuration(pulled.durationMs)}`;
  if (pulled.method === 'none' || pulled.method === 'manifest') {
    return `no file changed (${pulled.reason}, ${cost})`;
  }
  const changes = countedChanges({ added: pulled.added, changed: pulled.changed, removed: pulled.removed });
  const files = counted(pulled.files, 'file');
  const unchanged = pulled.files > 0 ? `the same ${files} again` : 'an empty tree';
  return `published ${changes === '' ? unchanged : `${files}: ${changes}`} (${pulled.reason}, ${cost})`;
}

function describePass(pass: PassFinished): string {
  const { targets, tried, pulled, downloadedBytes, changedFiles, missing, pulling, waiting, processing } =
    pass;
  return partsOf(
    `${counted(targets, 'target')} checked in ${roughDuration(pass.durationMs)}`,
    tried === 0 && 'nothing to pull',
    pulled > 0 &&
      `${pulled} pulled (${roughSize(downloadedBytes)}), ${counted(changedFiles, 'file')} changed`,
    undoneParts(pass),
    missing > 0 && `${missing} missing from the list, kept for now`,
    pulling > 0 && `${counted(pulling, 'slow pull')} still going on`,
    waiting > 0 && `${counted(waiting, 'pull')} waiting`,
    processing > 0 && `${counted(processing, 'workbook')} still being processed by the service`,
  ).join('; ');
}

/**
 * The number of failures among the attempts, of held targets, and of those that wait for another reason. Moves and retirements may fail, too.
 */
export function undoneParts({ tried, failed, held, leased, notYetRetried }: PassFinished): string[] {
  const others = held - leased - notYetRetried;
  return partsOf(
    failed > 0 && (failed > tried ? `${failed} failed` : `${failed} of ${counted(tried, 'pull')} failed`),
    notYetRetried > 0 && `${notYetRetried} waiting for another try`,
    others > 0 && `${others} held`,
    leased > 0 && `${leased} waiting for a lease`,
  );
}

/** The numbers that are not zero, each before its name: `2 added, 1 removed`. */
export function countedChanges(counts: Readonly<Record<string, number>>): string {
  const found = Object.entries(counts).filter(([, count]) => count > 0);
  return found.map(([change, count]) => `${count} ${change}`).join(', ');
}
