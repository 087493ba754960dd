import { z } from 'zod';

import { isAhead, latestKnown, latestUntil } from '../lib/time/wrong-clock.ts';
import { comparisonPeriodMs, fullCheckDueMs } from '../mirror/plan/next-record.ts';
import {
  treeKey,
  aboutTree,
  driftSchema,
  emptyRecord,
  failureSchema,
  heldSchema,
  recordsUpToNow,
  queuedSinceMs,
  type TargetRecord,
  type Published,
  targetOf,
} from '../mirror/plan/record.ts';
import { byCodeUnits } from '../mirror/store/manifest.ts';
import { branchSegment } from '../mirror/upstream/listing.ts';
import type { Selection } from '../mirror/plan/selection.ts';

/**
 * The states of a target, each with its state for people, and its notification. People see five words; the precise state is the reason.
 * The page has the same in `targets.js`. The notification `over` ends an earlier problem; null says nothing about it.
 *
 * - `fresh`: verified against the service within `maxStaleness`.
 * - `stale`: not; or the last list may hide a change behind an unreadable row.
 * - `failing`, `quarantined`, `stalled`: the last attempt failed; tried again later, when it changes, or by a person.
 * - `damaged`: its tree is gone from the disk; the next pass pulls it again.
 * - `drifted`: someone changed its tree; the next full check, or `drift: repair`, repairs it.
 * - `held`: a deletion waits for `approve`.
 * - `missing`: the service no longer has it; kept until enough answers agree.
 * - `absent`: the service has no contents there (yet).
 * - `pending`: never mirrored.
 * - `unselected`: the settings no longer select it (for example, another instance mirrors it); it is kept unchanged.
 */
export const STATES = {
  fresh: { plain: 'fresh', notified: 'over' },
  stale: { plain: 'late', notified: null },
  failing: { plain: 'failing', notified: 'target.failed' },
  quarantined: { plain: 'failing', notified: 'target.failed' },
  stalled: { plain: 'needs you', notified: 'target.failed' },
  damaged: { plain: 'failing', notified: 'target.drifted' },
  drifted: { plain: 'needs you', notified: 'target.drifted' },
  held: { plain: 'needs you', notified: 'target.held' },
  missing: { plain: 'gone', notified: null },
  absent: { plain: 'fresh', notified: 'over' },
  pending: { plain: 'late', notified: null },
  unselected: { plain: 'gone', notified: 'over' },
} as const;

/** The state of a target, in one word. */
export type TargetState = keyof typeof STATES;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a literal has no other keys
export const TARGET_STATES = Object.keys(STATES) as TargetState[];

/** The state of a target for people. */
export function plainState(state: TargetState): string {
  return STATES[state].plain;
}

/** As {@link plainState}, with the reason if the word alone does not say it: `needs you: held`. */
export function stateText(state: TargetState): string {
  const plain = plainState(state);
  return state === plain || state === 'stale' ? plain : `${plain}: ${state}`;
}

export const timeMs = z.number().meta({ description: 'milliseconds since the epoch' });
export const timeOrNeverMs = timeMs.nullable();
export const sizeBytes = z.number().meta({ description: 'bytes' });
export const targetName = z.string().meta({ description: 'REPOSITORY/BRANCH, as below mirror/' });

export const targetStatusSchema = z.object({
  target: targetName,
  repository: z.string(),
  repositoryId: z.string(),
  branch: z.string(),
  state: z.enum(TARGET_STATES),
  isStale: z.boolean(),
  verifiedAtMs: timeOrNeverMs,
  changedAtMs: timeOrNeverMs,
  checkedAtMs: timeOrNeverMs,
  nextFullCheckAtMs: timeOrNeverMs,
  nextAttemptAtMs: timeOrNeverMs,
  fingerprint: z.string().nullable(),
  files: z.int(),
  sizeBytes,
  failure: failureSchema.nullable(),
  held: heldSchema.nullable(),
  /** The difference of a tree from its manifest, and when it was found. */
  drift: driftSchema.omit({ needsRepair: true }).nullable(),
  /** When a person restored the tree from the history, if the service has not had it since. */
  restoredAtMs: timeOrNeverMs,
  missingWorkbooks: z.array(z.string()).readonly().meta({
    description: 'workbooks that the list of the service shows and that its contents lack',
  }),
});

/** The status of a target. */
export type TargetStatus = Readonly<z.infer<typeof targetStatusSchema>>;

/** The settings that decide states. Durations in milliseconds. */
export interface StatusPolicy {
  readonly selection: Selection;
  readonly maxStalenessMs: number;
  readonly fullCheckMs: number;
}

/** The status of every target with a tree or a record. */
export function statusOfTargets(
  published: readonly Published[],
  remembered: ReadonlyMap<string, TargetRecord>,
  policy: StatusPolicy,
  nowMs: number,
): TargetStatus[] {
  const records = recordsUpToNow(remembered, nowMs);
  const statuses = published.map((tree) =>
    publishedStatus(tree, records.get(treeKey(tree)) ?? null, policy, nowMs),
  );
  // A target may have two trees.
  for (const tree of published) records.delete(treeKey(tree));
  for (const record of records.values()) statuses.push(unpublishedStatus(record, policy, nowMs));
  return statuses.sort((a, b) => byCodeUnits(a.target, b.target));
}

function publishedStatus(
  tree: Published,
  remembered: TargetRecord | null,
  policy: StatusPolicy,
  nowMs: number,
): TargetStatus {
  const record = aboutTree(remembered ?? emptyRecord(targetOf(tree)), tree.publishedAtMs);
  const verifiedAtMs = latestKnown(nowMs, [record.verifiedAtMs, tree.verifiedAtMs]);
  const checkedTimesMs = [record.checkedAtMs, tree.comparedAtMs];
  const lastCheckMs = latestUntil(nowMs, checkedTimesMs);
  const periodMs = comparisonPeriodMs(tree, policy.fullCheckMs);
  const isRestored = tree.restoredAtMs !== null && (record.verifiedAtMs ?? 0) <= tree.restoredAtMs;
  const isUnproven = isRestored || record.decisions[0]?.reason === 'row-unreadable';
  // An answer that lacks the target says that its tree is to leave, which is no less current.
  const missingAtMs = record.missingPasses > 0 ? record.missingAtMs : null;
  const knownAtMs = latestKnown(nowMs, [verifiedAtMs, missingAtMs]);
  const isStale = isOlder(knownAtMs, policy.maxStalenessMs, nowMs) || !tree.treePresent || isUnproven;
  const drift = driftOf(record, nowMs);
  return {
    target: tree.path,
    repository: tree.repository.fullName,
    ...record.target,
    state: publishedState(tree, policy, record, stateOf(record, isStale, drift)),
    isStale,
    verifiedAtMs,
    changedAtMs: tree.publishedAtMs,
    checkedAtMs: latestKnown(nowMs, checkedTimesMs),
    nextFullCheckAtMs: lastCheckMs === 0 ? nowMs : fullCheckDueMs(record.target, lastCheckMs, periodMs),
    nextAttemptAtMs: record.failure?.nextAttemptAtMs ?? null,
    fingerprint: tree.fingerprint,
    files: tree.fileCount,
    sizeBytes: tree.sizeBytes,
    failure: record.failure,
    held: record.held,
    drift,
    restoredAtMs: isRestored ? tree.restoredAtMs : null,
    missingWorkbooks: tree.missing,
  };
}

/**
 * The difference of a target's tree; null if a later complete comparison has repaired it. A time in the future
 * proves nothing.
 */
function driftOf({ drift, checkedAtMs }: TargetRecord, nowMs: number): TargetStatus['drift'] {
  if (drift === null) return null;
  const { needsRepair: _needsRepair, ...shown } = drift;
  const isRepaired = checkedAtMs !== null && (isAhead(nowMs, drift.sinceMs) || drift.sinceMs <= checkedAtMs);
  return isRepaired ? null : shown;
}

/** The status of a target without a tree. */
function unpublishedStatus(record: TargetRecord, policy: StatusPolicy, nowMs: number): TargetStatus {
  const isPending = record.absentSinceMs === null && record.failure === null && record.held === null;
  // A new branch is late, too, once it has waited for longer than `maxStaleness`.
  const sinceMs = isPending ? queuedSinceMs(record) : record.verifiedAtMs;
  const isStale = sinceMs === null || isOlder(sinceMs, policy.maxStalenessMs, nowMs);
  // A tree with a record, but neither files nor a manifest, is lost.
  const waiting = record.tree === null ? 'pending' : 'damaged';
  const { target, repository, verifiedAtMs, checkedAtMs, failure, held } = record;
  return {
    target: `${repository}/${branchSegment(target.branch)}`,
    repository,
    ...target,
    state: isPending ? waiting : stateOf(record, isStale, null),
    isStale,
    verifiedAtMs,
    changedAtMs: null,
    checkedAtMs,
    nextFullCheckAtMs: null,
    nextAttemptAtMs: failure?.nextAttemptAtMs ?? null,
    fingerprint: null,
    files: 0,
    sizeBytes: 0,
    failure,
    held,
    drift: null,
    restoredAtMs: null,
    missingWorkbooks: [],
  };
}

/** Whether a time is too long ago; one in the future comes from a wrong clock, and proves nothing. */
function isOlder(timeMs: number, limitMs: number, nowMs: number): boolean {
  return timeMs > nowMs || nowMs - timeMs > limitMs;
}

/** Whether this instance does not keep the target fresh. */
export function isLeftAlone(state: TargetState): state is 'unselected' {
  return state === 'unselected';
}

/** Why a target counts against exit codes and readiness. */
export const NOT_WELL_REASONS = [
  'never-verified',
  'stale',
  'damaged',
  'drifted',
  'restored',
  'failing',
  'quarantined',
  'stalled',
  'held',
] as const;
export type NotWellReason = (typeof NOT_WELL_REASONS)[number];

/**
 * Why a target counts against the exit codes of `sync`, `poll --wait` and `status`, and against `/readyz`: all of them use this,
 * so that they agree. Null if it does not count. A target that the latest list lacks does not count until it is retired.
 */
export function whyNotWell({
  state,
  verifiedAtMs,
  restoredAtMs,
  isStale,
  drift,
}: TargetStatus): NotWellReason | null {
  if (isLeftAlone(state) || state === 'missing') return null;
  if (state === 'pending') return isStale ? 'never-verified' : null;
  if (verifiedAtMs === null) return 'never-verified';
  if (state === 'damaged') return 'damaged';
  if (restoredAtMs !== null) return 'restored';
  if (isStale) return 'stale';
  if (drift !== null) return 'drifted';
  return state === 'fresh' || state === 'absent' ? null : state;
}

/** Whether a target was ever mirrored, or the service has no contents for it. */
export function isMirrored({ state }: Pick<TargetStatus, 'state'>): boolean {
  return state !== 'pending';
}

/** Whether a target is well. */
export function isWell(status: TargetStatus): boolean {
  return whyNotWell(status) === null;
}

function publishedState(
  { repository, branch, treePresent }: Published,
  { selection }: StatusPolicy,
  { held, decisions }: TargetRecord,
  state: TargetState,
): TargetState {
  if (held?.subject === 'moved') return 'unselected';
  // The tree has the former name of a repository that was renamed to an excluded one.
  const isLeft = decisions[0]?.reason === 'not-selected' || !selection.selects(repository.fullName, branch);
  // A target deselected together with too many others is still mirrored.
  if (isLeft && held?.subject !== 'deselected') return 'unselected';
  // A failure or a hold says why the tree is not pulled again.
  const isExplained = ['failing', 'quarantined', 'stalled', 'held'].includes(state);
  return treePresent || isExplained ? state : 'damaged';
}

function stateOf(record: TargetRecord, isStale: boolean, drift: TargetStatus['drift']): TargetState {
  const { failure } = record;
  if (failure !== null) {
    if (failure.action === 'quarantine') return 'quarantined';
    return failure.action === 'stall' ? 'stalled' : 'failing';
  }
  if (drift !== null) return 'drifted';
  if (record.held !== null) return 'held';
  if (isStale) return 'stale';
  if (record.missingPasses > 0) return 'missing';
  return record.absentSinceMs !== null ? 'absent' : 'fresh';
}
