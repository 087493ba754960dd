import type { SettingsFor } from '../config/schema.ts';
import {
  approveCommand,
  driftSentence,
  heldSentence,
  printable,
  roughDuration,
  roughSize,
  utcTime,
} from '../model/humanize.ts';
import { type Lease, leaseSentence } from '../model/lease.ts';
import { statusOfTargets, type TargetStatus } from '../model/status.ts';
import type { StoredPass } from '../state/state.ts';
import { tolerateStateFailure } from '../sync/state-failures.ts';
import { openReader, refuseMissing, statusPolicyOf } from './compose.ts';
import { table, tellEvent } from './output.ts';

/** How everything stands, from the disk. */
export interface StatusReport {
  readonly nowMs: number;
  readonly maxStalenessMs: number;
  readonly lastPass: StoredPass | null;
  /** Those that publishing waits for. */
  readonly leases: readonly Lease[];
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
    const leases = await store.leases();
    return { nowMs, maxStalenessMs: policy.maxStalenessMs, lastPass, leases, targets };
  } finally {
    await state.close();
  }
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
export function describeStatus(report: StatusReport): string {
  const { nowMs, targets } = report;
  const ago = (timeMs: number | null): string =>
    timeMs === null ? 'never' : `${roughDuration(nowMs - timeMs)} ago`;
  const rows = targets.map((target) => [
    printable(target.target),
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
  return [describeLastPass(report, ago), ...report.leases.map(describeLease), '', body].join('\n');
}

function describeLease(lease: Lease): string {
  const sentence = leaseSentence(lease);
  return printable(`${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`);
}

function describeTrouble({
  target,
  failure,
  held,
  drift,
  restoredAtMs,
  nextAttemptAtMs,
}: TargetStatus): string {
  if (failure === null && drift !== null) return printable(`someone changed it: ${driftSentence(drift)}`);
  if (failure === null) {
    if (held === null)
      return restoredAtMs === null ? '' : `restored from the history at ${utcTime(restoredAtMs)}`;
    return printable(`${heldSentence(held)}; ${approveCommand(target)}`);
  }
  const next = nextAttemptAtMs === null ? '' : `; next attempt ${utcTime(nextAttemptAtMs)}`;
  return printable(`${failure.code}: ${failure.message}${next}`);
}

function describeLastPass({ lastPass }: StatusReport, ago: (timeMs: number | null) => string): string {
  if (lastPass === null)
    return 'No pass is on record: `workbook-mirror sync` makes one, `workbook-mirror run` one after the other.';
  const when = `Last pass: ${utcTime(lastPass.startedAtMs)} (${ago(lastPass.startedAtMs)})`;
  if (lastPass.failure !== null) {
    const { code, message, hint } = lastPass.failure;
    return printable(`${when}, failed: ${code}: ${message} ${hint ?? ''}`.trimEnd());
  }
  return `${when}, ${lastPass.summary?.pulled ?? 0} pulled, ${lastPass.summary?.failed ?? 0} failed, ${lastPass.summary?.held ?? 0} held`;
}
