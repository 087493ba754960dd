import type { Command } from 'commander';

import { describePhase, undoneParts, unmatchedSentence } from '../../app/messages.ts';
import { readTargets, withReader } from '../../app/open-reader.ts';
import { isMirrored, isWell, plainState, type TargetStatus } from '../../app/target-status.ts';
import type { LiveStatus } from '../../app/tasks/task.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { dueHooks } from '../../daemon/hooks/due-hooks.ts';
import { readinessOf } from '../../daemon/status/readiness.ts';
import { isLockHidden, readLockHolder } from '../../lib/disk/lock.ts';
import { agoText, counted, partsOf, utcTime, withHint } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TerminalText } from '../../lib/text/terminal-text.ts';
import { selectsNothing } from '../../mirror/plan/selection.ts';
import type { StoredPass } from '../../mirror/state/state.ts';
import { leaseSentence, leasesInForce } from '../../mirror/store/leases.ts';
import { readShareReports } from '../../mirror/store/documents.ts';
import { judged, type Lines, type Outcome, tellEvent, textOf } from '../frame/output.ts';
import { daemonsOf } from '../frame/task-runners.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { statusAll } from './status-all.ts';
import { targetTable, usuallyListed } from './target-table.ts';

/** `status` */
export async function runStatus(command: Command): Promise<Outcome> {
  const { all }: { all?: true } = command.opts();
  const names = command.args;
  const { settings } = settingsOf(command, ['directory']);
  const whole = all === true ? await statusAll(settings, names) : null;
  if (whole !== null) return whole;
  const [read, daemons] = await Promise.all([status(settings, names), daemonsOf(command, true)]);
  const own = daemons.find(({ shardIndex }) => shardIndex === (settings.shard?.index ?? null));
  // Without an answer, the report rests on the disk alone.
  const live = (await own?.run('status', {}).catch(() => null)) ?? null;
  const stateProblem = live?.stateProblem ?? null;
  const targets = stateProblem !== null ? read.targets.map(unverified) : read.targets;
  const report = { ...read, targets, live };
  const listed = all === true || names.length > 0 ? targets : usuallyListed(targets);
  const areWell = names.length === 0 ? isAllWell(report) : targets.every(isWell);
  return judged(areWell, report, () => describeStatus(report, listed));
}

/** A target whose last record may be missing: the daemon cannot use the state cache. */
function unverified(target: TargetStatus): TargetStatus {
  return target.state === 'fresh' ? { ...target, state: 'stale', isStale: true } : target;
}

/** The state of everything, from the disk and the daemon; `live` is null without one. */
type StatusReport = Awaited<ReturnType<typeof status>> & { readonly live: LiveStatus | null };

/** Reads the state of everything, even while a daemon runs. */
function status(settings: SettingsFor<'directory'>, names: readonly string[]) {
  return withReader(settings, tellEvent, async (reader) => {
    const { store, state } = reader;
    const { lockFile } = store.layout;
    const { nowMs, maxStalenessMs, statuses } = await readTargets(settings, reader, names);
    const delivered = settings.hooks.afterPublish === undefined ? null : await state.hookTrees();
    return {
      nowMs,
      maxStalenessMs,
      /** The share of this instance; null if it mirrors all repositories. */
      shard: store.shard,
      /** Whether other instances work, or worked, in the directory. */
      hasOthers: (await readShareReports(store.layout)).length > 0,
      lastPass: await state.lastPass().catch(() => null),
      /** The process that has, or had, the lock of the directory; null if unknown. */
      holder: await readLockHolder(lockFile),
      /** Whether this user may not read the lock, so that its holder is unknown. */
      isLockHidden: await isLockHidden(lockFile),
      leases: await leasesInForce(store.layout, Date.now()),
      /** The number of targets whose `hooks.afterPublish` has not yet succeeded; null if none is set. */
      hooksDue: delivered && dueHooks(await store.inventory.read(), delivered).length,
      targets: statuses,
    };
  });
}

/** Whether all is well; beside a daemon, `/readyz` decides. */
function isAllWell({ targets, lastPass, live }: StatusReport): boolean {
  if (live !== null) return live.isReady;
  if (lastPass === null) return false;
  const { failure } = lastPass;
  // A failed pass says nothing about earlier listings; a failed first pass leaves targets that were never mirrored.
  const isListed =
    failure === null
      ? lastPass.isWhole
      : failure.code !== 'directory.other_service' && targets.length > 0 && targets.every(isMirrored);
  const isEmpty = lastPass.selection !== null && selectsNothing(lastPass.selection);
  return readinessOf(targets, { isListed, selectsNothing: isEmpty }).isReady;
}

/** Describes the report to a person. @param listed the targets that get a line */
export function describeStatus(report: StatusReport, listed = report.targets): TerminalText {
  const { nowMs, shard, targets, lastPass, hooksDue } = report;
  const ago = (timeMs: number): string => agoText(timeMs, nowMs);
  return textOf(
    shard !== null &&
      `Shard ${shard.index} of ${shard.count}; \`${ownCommand('status --all')}\` shows all shards.`,
    shard === null &&
      report.hasOthers &&
      `! Several shards share this directory: \`${ownCommand('status --all')}\` shows them, and the setting shard, such as --shard 2/5, selects one.`,
    describeLastPass(report, ago),
    describeHolder(report, ago),
    describeWork(report),
    targets.length > 0 && describeCounts(targets),
    lastPass !== null && describeSelection(lastPass),
    lastPass !== null && lastPass.problems.map((problem) => `! ${problem}`),
    lastPass?.publishesWhole === false &&
      '! Publishing goes file by file, so readers may briefly see a mix of two states; `publish: link` avoids that.',
    hooksDue !== null &&
      hooksDue > 0 &&
      `! hooks.afterPublish has not yet succeeded for ${counted(hooksDue, 'target')}; it runs again until it does`,
    report.leases.map((lease) => `! ${leaseSentence(lease)}`),
    '',
    targetTable(listed, targets.length, nowMs),
  );
}

/** The process that works in the directory, if known. */
function describeHolder(
  { holder, isLockHidden: isHidden }: StatusReport,
  ago: (timeMs: number) => string,
): string | null {
  if (isHidden)
    return 'Running: unknown, as this user may not read the lock of the directory; its owner and root may';
  if (holder === null) return null;
  return holder.isAlive
    ? `Running: process ${holder.pid} since ${utcTime(holder.sinceMs)} (${ago(holder.sinceMs)})`
    : 'Running: no process';
}

/** Describes the running work of the daemon. */
function describeWork({ live, nowMs }: StatusReport): Lines {
  if (live === null) return [];
  const { isListed, stateProblem, pass, pulls, scan, nextPassAtMs } = live;
  const planned = pass?.planned ?? null;
  return [
    pass !== null &&
      `Current pass: began ${agoText(pass.startedAtMs, nowMs)}${planned === null ? '' : `, ${pass.done} of ${counted(planned, 'target')} pulled`}`,
    pulls.slice(0, PULLS_SHOWN).map((pull) => `  ${pull.target}: ${describePhase(pull)}`),
    pulls.length > PULLS_SHOWN && `  and ${pulls.length - PULLS_SHOWN} more`,
    scan !== null && `Compared with their manifests: ${scan.doneTargets} of ${counted(scan.targets, 'tree')}`,
    pass === null && nextPassAtMs !== null && `Next pass: ${utcTime(nextPassAtMs)}`,
    stateProblem !== null && `! Nothing counts as fresh: ${stateProblem}`,
    !isListed && '! No pass of the daemon under its present settings is on record yet.',
  ];
}

/** The most running pulls shown. */
const PULLS_SHOWN = 4;

/** Counts targets by state, the most frequent first. */
function describeCounts(targets: readonly TargetStatus[]): string {
  const counts = new Map<string, number>();
  for (const plain of targets.map(({ state }) => plainState(state)))
    counts.set(plain, (counts.get(plain) ?? 0) + 1);
  const parts = [...counts].sort((a, b) => b[1] - a[1]).map(([state, count]) => `${count} ${state}`);
  const mirrored = targets.filter(isMirrored).length;
  const known = counted(targets.length, 'target');
  return `${mirrored === targets.length ? known : `${mirrored} of ${known} mirrored`}: ${parts.join(', ')}`;
}

/** The patterns that selected nothing in the last pass. */
function describeSelection({ selection }: StoredPass): Lines {
  if (selection === null) return [];
  return [
    selection.unmatched.map((each) => `! ${unmatchedSentence(each)}`),
    selectsNothing(selection) && '! The settings select nothing of what the service lists.',
  ];
}

function describeLastPass(report: StatusReport, ago: (timeMs: number) => string): string | null {
  const { lastPass, holder, live, shard, hasOthers } = report;
  // Each shard has its own record of passes.
  if (lastPass === null && shard === null && hasOthers) return null;
  if (lastPass === null && (holder?.isAlive === true || live !== null)) return 'No pass is on record yet.';
  if (lastPass === null)
    return `No pass is on record: \`${ownCommand('sync')}\` makes one, \`${ownCommand('run')}\` makes them on the schedule.`;
  const { startedAtMs, failure, summary } = lastPass;
  const when = `Last pass: ${utcTime(startedAtMs)} (${ago(startedAtMs)})`;
  if (failure !== null) return `${when}, failed: ${failure.code}: ${withHint(failure)}`;
  return partsOf(when, `${summary?.pulled ?? 0} pulled`, summary !== null && undoneParts(summary)).join(', ');
}
