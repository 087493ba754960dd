import type { SettingsFor } from '../config/schema.ts';
import {
  approveCommand,
  counted,
  driftSentence,
  heldSentence,
  oneLine,
  roughDuration,
  roughSize,
  utcTime,
  withHint,
} from '../model/humanize.ts';
import { dueHooks } from '../model/due-hooks.ts';
import { type Lease, leaseSentence } from '../model/lease.ts';
import { type SlowPulls, statusOfTargets, type TargetStatus } from '../model/status.ts';
import { joinLines, type TerminalText } from '../model/terminal-text.ts';
import type { StoredPass } from '../state/state.ts';
import { tolerateStateFailure } from '../sync/state-failures.ts';
import { type MirrorReader, openReader, refuseMissing, statusPolicyOf } from './reader.ts';
import { table, tellEvent } from './output.ts';

/** How everything stands, from the disk. */
export interface StatusReport {
  readonly nowMs: number;
  readonly maxStalenessMs: number;
  readonly lastPass: StoredPass | null;
  /** Those that publishing waits for. */
  readonly leases: readonly Lease[];
  /** For how many targets the command after publishing has not yet succeeded; null where none is set. */
  readonly hooksDue: number | null;
  /** The pulls that take long: those of the process that mirrors, or mirrored last. */
  readonly slowPulls: SlowPulls;
  readonly targets: readonly TargetStatus[];
}

/** Reads how everything stands; works beside a running daemon. */
export async function status(settings: SettingsFor<'directory'>): Promise<StatusReport> {
  await refuseMissing(settings.directory);
  const { store, state } = await openReader(settings, tellEvent);
  try {
    const policy = statusPolicyOf(settings);
    const nowMs = Date.now();
    const records = await tolerateStateFailure(tellEvent, () => state.records(), new Map());
    const drift = await tolerateStateFailure(tellEvent, () => state.drift(), {});
    const lastPass = await tolerateStateFailure(tellEvent, () => state.lastPass(), null);
    const targets = statusOfTargets(await store.published(), records, drift, policy, nowMs);
    const slowPulls = await tolerateStateFailure<SlowPulls>(tellEvent, state.slowPulls, {});
    const leases = await store.leases();
    const hooksDue = settings.hooks.afterPublish === undefined ? null : await countHooksDue({ store, state });
    const { maxStalenessMs } = policy;
    return { nowMs, maxStalenessMs, lastPass, leases, hooksDue, slowPulls, targets };
  } finally {
    await state.close();
  }
}

async function countHooksDue({ store, state }: MirrorReader): Promise<number | null> {
  const told = await tolerateStateFailure(tellEvent, () => state.toldTrees(), null);
  if (told === null) return null;
  const { published, unreadable } = await store.inventory();
  return dueHooks(published, new Set(unreadable), told).length;
}

/** Whether a target is as it should be. */
function isWell(target: TargetStatus): boolean {
  return (
    target.state === 'unselected' ||
    ((target.state === 'fresh' || target.state === 'absent') && !target.isStale)
  );
}

/** Whether everything is as it should be: the last pass, too, which says whether the service still lets us in. */
export function isAllWell({ targets, lastPass }: StatusReport): boolean {
  return lastPass !== null && lastPass.failure === null && targets.every(isWell);
}

/** The report for a person. */
export function describeStatus(report: StatusReport): TerminalText {
  const { nowMs, targets } = report;
  const ago = (timeMs: number | null): string =>
    timeMs === null ? 'never' : `${roughDuration(nowMs - timeMs)} ago`;
  const rows = targets.map((target) => [
    target.target,
    target.state + (target.isStale && target.state !== 'stale' ? ', stale' : ''),
    ago(target.verifiedAtMs),
    ago(target.changedAtMs),
    ago(target.checkedAtMs),
    String(target.files),
    roughSize(target.sizeBytes),
    target.fingerprint?.slice(0, 10) ?? '-',
    describeTrouble(target),
  ]);
  const headings = [
    'TARGET',
    'STATE',
    'VERIFIED',
    'CHANGED',
    'COMPARED WHOLE',
    'FILES',
    'SIZE',
    'FINGERPRINT',
    'TROUBLE',
  ];
  const body = targets.length === 0 ? 'Nothing is mirrored yet.' : table(headings, rows);
  return joinLines([
    describeLastPass(report, ago),
    ...describeHooksDue(report),
    ...report.leases.map(describeLease),
    ...describeSlowPulls(report, ago),
    '',
    body,
    ...describeSharing(report),
  ]);
}

/** How much need not be stored twice, if anything. */
function describeSharing({ targets }: StatusReport): string[] {
  const sizeBytes = targets.reduce((sum, target) => sum + target.sizeBytes, 0);
  const sharedBytes = targets.reduce((sum, target) => sum + target.sharedBytes, 0);
  if (sharedBytes === 0) return [];
  return [
    '',
    `${roughSize(sharedBytes)} of ${roughSize(sizeBytes)} share their storage with files of other targets.`,
  ];
}

function describeHooksDue({ hooksDue }: StatusReport): string[] {
  if (hooksDue === null || hooksDue === 0) return [];
  return [
    `hooks.afterPublish has not succeeded yet for ${counted(hooksDue, 'target')}; it is run until it does`,
  ];
}

function describeSlowPulls({ slowPulls }: StatusReport, ago: (timeMs: number) => string): string[] {
  return Object.entries(slowPulls).map(
    ([target, sinceMs]) => `${target} takes long: being pulled since ${utcTime(sinceMs)} (${ago(sinceMs)})`,
  );
}

function describeLease(lease: Lease): string {
  const sentence = leaseSentence(lease);
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;
}

function describeTrouble({
  target,
  failure,
  held,
  drift,
  restoredAtMs,
  nextAttemptAtMs,
}: TargetStatus): string {
  if (failure === null && drift !== null) return `someone changed it: ${driftSentence(drift)}`;
  if (failure === null) {
    if (held === null)
      return restoredAtMs === null ? '' : `restored from the history at ${utcTime(restoredAtMs)}`;
    return `${heldSentence(held)}; ${approveCommand(target)}`;
  }
  const next = nextAttemptAtMs === null ? '' : `; next attempt ${utcTime(nextAttemptAtMs)}`;
  const changed = drift === null ? '' : `; someone changed it: ${driftSentence(drift)}`;
  return `${failure.code}: ${oneLine(failure.message)}${next}${changed}`;
}

function describeLastPass({ lastPass }: StatusReport, ago: (timeMs: number | null) => string): string {
  if (lastPass === null)
    return 'No pass is on record: `workbook-mirror sync` makes one, `workbook-mirror run` one after the other.';
  const when = `Last pass: ${utcTime(lastPass.startedAtMs)} (${ago(lastPass.startedAtMs)})`;
  if (lastPass.failure !== null) {
    return `${when}, failed: ${lastPass.failure.code}: ${withHint(lastPass.failure)}`;
  }
  return `${when}, ${lastPass.summary?.pulled ?? 0} pulled, ${lastPass.summary?.failed ?? 0} failed, ${lastPass.summary?.held ?? 0} held`;
}
