import type { Action, PullAction, PullReason } from '../plan/actions.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { MirrorEvent } from './events.ts';
import { lastLease } from '../store/leases/lease.ts';
import type { TargetRecord } from '../plan/record.ts';
import { byRepository, targetKey } from '../upstream/listing.ts';
import { slotsFor } from '../plan/fair-queue.ts';
import {
  type ActionResult,
  type EndedResult,
  type Execution,
  failed,
  heldByLease,
  type PullEnd,
  type PullWork,
  resultOf,
} from './execution.ts';
import { notFound } from './gone.ts';
import type { BegunPull, QueuedPull } from './pull-scheduler.ts';
import { pullTarget } from './pull.ts';
import { record } from './remember.ts';

/** What became of the pulls of a pass. */
export interface PulledAll {
  /** One for each pull that is not among `gone`; what has ended is recorded. */
  readonly results: readonly ActionResult[];
  /** Those of targets that the service has no longer, and whose time has come. */
  readonly gone: readonly PullAction[];
}

/**
 * Pulls targets in the order of the scheduler, and records what becomes of each, for as long as the scheduler makes the pass wait.
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function pullAll(execution: Execution, actions: readonly PullAction[]): Promise<PulledAll> {
  const { concurrency, slowAfterMs } = execution.policy;
  const pulls = queuePulls(execution, actions);
  const ends = await execution.context.scheduler.run(pulls, { slots: slotsFor(concurrency), slowAfterMs });
  const results = ends.flatMap((end) => (end.kind === 'recorded' ? [end.result] : []));
  const gone = ends.flatMap((end) => (end.kind === 'gone' ? [end.action] : []));
  const ended = new Set([...results.map(({ action }) => action), ...gone].map(keyOf));
  const unfinished = actions.filter((action) => !ended.has(keyOf(action)));
  return { results: [...results, ...unfinished.map((action) => unfinishedResult(execution, action))], gone };
}

function keyOf({ target }: Action): string {
  return targetKey(target);
}

/** The result of a pull that goes on, or waits for a slot. */
export function unfinishedResult({ context }: Pick<Execution, 'context'>, action: Action): ActionResult {
  // One that went on when the plan was made may have ended meanwhile.
  const hasBegun = action.reason === 'still-pulling' || context.scheduler.running().has(keyOf(action));
  return { action, outcome: { kind: 'unfinished', hasBegun }, downloadedBytes: 0, changedFiles: 0 };
}

function queuePulls(
  { context, policy, listing, records, trees, approvals, plan, signal, noteLease }: Execution,
  actions: readonly PullAction[],
): QueuedPull<PullEnd>[] {
  if (actions.length === 0) return [];
  const repositories = new Map(listing.repositories.map((repository) => [repository.id, repository]));
  const rows = listing.workbooks === null ? null : byRepository(listing.workbooks);
  const branches = branchesOf(plan);
  return actions.map((action): QueuedPull<PullEnd> => {
    const key = keyOf(action);
    const repository = repositories.get(action.target.repositoryId);
    if (repository === undefined)
      throw new MirrorError('internal.defect', `No repository for ${action.path}.`);
    const workUntil = (end: AbortSignal): PullWork => ({
      context,
      policy,
      listing: { takenAtMs: listing.takenAtMs },
      records: only(records, key),
      trees: only(trees, action.published?.path ?? action.path),
      approvals: only(approvals, key),
      signal: end,
      noteLease,
      action,
      repository,
      rows: rows === null ? null : (rows.get(repository.fullName) ?? []),
      branches: branches.get(repository.id) ?? [],
    });
    return {
      action,
      repositoryId: repository.id,
      service: context.service,
      waitingSinceMs: waitingSinceMs(records.get(key)),
      sizeBytes: action.byWorkbook !== 'no' ? 0 : (action.published?.archiveBytes ?? null),
      begin: (calledOff, isAwaited) => {
        const either = joinSignals(signal, calledOff);
        return beginPull(workUntil(either.signal), isAwaited, either.leave);
      },
    };
  });
}

/** The branches that a plan knows of, by repository id. */
function branchesOf(plan: readonly Action[]): Map<string, string[]> {
  const branches = new Map<string, string[]>();
  for (const { target } of plan) {
    const known = branches.get(target.repositoryId);
    if (known === undefined) branches.set(target.repositoryId, [target.branch]);
    else known.push(target.branch);
  }
  return branches;
}

function only<Value>(values: ReadonlyMap<string, Value>, key: string): ReadonlyMap<string, Value> {
  const value = values.get(key);
  return new Map(value === undefined ? [] : [[key, value]]);
}

/** Since when a target waits for its turn: since it was last found to be right, or tried. Milliseconds since the epoch. */
function waitingSinceMs(record: TargetRecord | undefined): number {
  return Math.max(record?.verifiedAtMs ?? 0, record?.failure?.lastAtMs ?? 0);
}

/**
 * Begins a pull, and puts right with it what was known to differ in its tree. What is found to differ meanwhile waits for the
 * next pass, as the pull may have looked at it before.
 */
function beginPull(work: PullWork, isAwaited: () => boolean, leaveSignals: () => void): BegunPull<PullEnd> {
  const { context, action } = work;
  const { store, emit, now } = context;
  const path = action.moveFrom === null ? (action.published?.path ?? action.path) : action.path;
  // What was found to differ after the plan was made is looked at too shallowly here.
  const isThorough = action.depth === 'bytes' || action.published === null;
  const endRepair = isThorough ? store.drifted.beginRepair(path) : () => {};
  const startedAtMs = now();
  let isSlow = false;
  const onEnd = (result: string): void => {
    leaveSignals();
    endRepair(result === 'pulled' || result === 'gone');
    if (isSlow)
      emit({ name: 'target.slow_ended', target: action.path, result, durationMs: now() - startedAtMs });
  };
  return {
    onSlow: () => {
      isSlow = true;
      emit({ name: 'target.slow', target: action.path, startedAtMs });
    },
    ended: pullAndRecord(work, isAwaited).then(
      (end) => {
        onEnd(end.kind === 'gone' ? 'gone' : end.result.outcome.kind);
        return end;
      },
      (error: unknown) => {
        const { code } = toMirrorError(error);
        onEnd(code === 'pass.abandoned' ? 'called off' : code);
        throw error;
      },
    ),
  };
}

/** Pulls a target and records what became of it; but for one that is gone, of which the pass that waits disposes. */
async function pullAndRecord(work: PullWork, isAwaited: () => boolean): Promise<PullEnd> {
  const news: MirrorEvent[] = [];
  const result = await pullOne(work, (event) => news.push(event));
  if (result === null && isAwaited()) return { kind: 'gone', action: work.action };
  // Trees leave the mirror within a pass, where the guard sees all of them: the next one finds that the time has come.
  const ended = result ?? resultOf(work.action, { kind: 'missing' });
  await record(work, [ended]);
  // Who looks at the records when it comes is to find there what it tells.
  for (const event of news) work.context.emit(event);
  return { kind: 'recorded', result: ended };
}

/** Pulls that most often find nothing to publish; the others are not downloaded while a lease keeps them from being published. */
const WORTH_A_LOOK: ReadonlySet<PullReason> = new Set(['full-check', 'no-version-list', 'confirm-gone']);

/**
 * Pulls a target; null when the service has it no longer, and its time has come.
 * @param tellLater takes what is to be reported once the result is recorded
 */
async function pullOne(work: PullWork, tellLater: (event: MirrorEvent) => void): Promise<EndedResult | null> {
  const { context, action, listing, repository, rows, approvals, policy, signal } = work;
  try {
    signal.throwIfAborted();
    const lease = WORTH_A_LOOK.has(action.reason) ? null : lastLease(await context.store.leases());
    if (lease !== null) return heldByLease(work, action, lease);
    context.emit({ name: 'target.started', target: action.path, reason: action.reason });
    const guard = policy.guard.files;
    const meter = context.monitor.begin(action.path, action.published?.archiveBytes ?? null);
    const request = { action, repository, rows, listing, guard, approvals, meter, signal };
    const pulled = await pullTarget(context, request).finally(() => meter.end());
    if (pulled.kind === 'not-found') return await notFound(work, pulled.isCertain);
    if (pulled.kind === 'guarded') {
      const { held, downloadedBytes } = pulled;
      const outcome = { kind: 'guarded', held, fingerprint: action.fingerprint } as const;
      return { action, outcome, downloadedBytes, changedFiles: 0 };
    }
    const { facts, manifest, tree, isExamined, isWhole } = pulled;
    const { skipped, publishedAtMs } = manifest;
    const changedFiles = facts.added + facts.changed + facts.removed;
    const [first] = skipped;
    if (first !== undefined && changedFiles > 0) {
      tellLater({
        name: 'target.skipped_entries',
        target: action.path,
        count: skipped.length,
        first: first.path,
      });
    }
    tellLater({ name: 'target.pulled', ...facts });
    return {
      action,
      outcome: { kind: 'pulled', changedFiles, publishedAtMs, tree, isExamined, isWhole },
      downloadedBytes: facts.downloadedBytes,
      changedFiles,
    };
  } catch (error) {
    return failed(work, action, error);
  }
}
