import { MirrorError } from '../model/errors.ts';
import type { Manifest } from '../model/manifest.ts';
import { type Lease, lastLease } from '../model/lease.ts';
import type { Action, HoldAction, PullAction, PullReason } from '../model/actions.ts';
import type { Outcome } from '../model/record.ts';
import { byRepository, type Listing } from '../model/service.ts';
import { forEachConcurrently } from '../model/concurrency.ts';
import {
  type ActionResult,
  type ExecutePolicy,
  type Execution,
  failed,
  heldByLease,
  type PlannedPass,
  resultOf,
} from './execution.ts';
import { notFound, retireAll, type Retirement } from './gone.ts';
import type { PassContext, StagePort } from './ports.ts';
import { pullTarget } from './pull.ts';
import { forget, record, withdraw } from './remember.ts';

/**
 * Carries a plan out: what needs no contents first, then the pulls, last what leaves the mirror. One target's failure is
 * its own; only a refused credential ends the pass, because it would fail every other target too.
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function executePlan<Stage extends StagePort>(
  context: PassContext<Stage>,
  policy: ExecutePolicy,
  listing: Listing,
  { plan, records, approvals }: PlannedPass,
  signal: AbortSignal,
): Promise<ActionResult[]> {
  const execution: Execution<Stage> = {
    context,
    policy,
    listing,
    records,
    approvals,
    repositories: new Map(listing.repositories.map((repository) => [repository.id, repository])),
    rows: listing.workbooks === null ? null : byRepository(listing.workbooks),
    plan,
    signal,
    noteLease: once(({ untilMs, holder }: Lease) => context.emit({ name: 'lease.waited', untilMs, holder })),
  };
  const { settled, pulls } = await settleWithoutContents(execution);
  const results: ActionResult[] = [];
  const gone: Retirement[] = [];
  await forEachConcurrently(pulls, policy.concurrency, async (action) => {
    const result = await pullNoted(execution, action);
    if (result === null) {
      gone.push({ action, target: action.target, reason: 'branch-gone' });
      return;
    }
    await record(execution, [result]);
    results.push(result);
  });
  // A gone repository's tree stays in its place until the new one's, which was to take it, is there.
  const failedPaths = new Set(
    results
      .filter(({ outcome }) => outcome.kind === 'failed' || outcome.kind === 'held')
      .map(({ action }) => action.path),
  );
  const due = plan.flatMap((action) =>
    action.kind === 'retire' && !failedPaths.has(action.path)
      ? [{ action, target: action.target, reason: action.reason }]
      : [],
  );
  const retirements = [...due, ...gone];
  const retired = await retireAll(execution, retirements);
  // Of a duplicate nothing is remembered: record and approval are those of the tree that counts.
  const counting = retired.filter((_, index) => retirements[index]?.reason !== 'duplicate');
  await record(execution, counting);
  await forget(execution, [...settled, ...results, ...retired]);
  await withdraw(execution, [...settled, ...results, ...counting]);
  return [...settled, ...results, ...retired];
}

/** Does what needs no contents, and gives the pulls that are left. */
async function settleWithoutContents<Stage extends StagePort>(
  execution: Execution<Stage>,
): Promise<{ settled: ActionResult[]; pulls: PullAction[] }> {
  const settled: ActionResult[] = [];
  const pulls: PullAction[] = [];
  for (const action of execution.plan) {
    const obstacle = await moveFirst(execution, action);
    if (obstacle !== null) settled.push(obstacle);
    else if (action.kind === 'keep') settled.push(resultOf(action, { kind: 'kept' }));
    else if (action.kind === 'hold') settled.push(resultOf(action, outcomeOfHold(action)));
    else if (action.kind === 'pull') pulls.push(action);
  }
  await record(execution, settled);
  return { settled, pulls };
}

function outcomeOfHold({ guarded, missing, fingerprint }: HoldAction): Outcome {
  if (guarded !== null) return { kind: 'guarded', held: guarded, fingerprint };
  return { kind: missing ? 'missing' : 'held' };
}

/** Moves the tree of a renamed repository. Gives what became of the action, if that does not go. */
async function moveFirst<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: Action,
): Promise<ActionResult | null> {
  const { context } = execution;
  const from = action.moveFrom;
  if (from === null) return null;
  try {
    const manifest = await context.store.manifest(from);
    if (manifest === null) return null;
    await context.store.move(from, action.path, renamed(manifest, action.repository), execution.signal);
    context.emit({ name: 'target.moved', from, target: action.path });
    return null;
  } catch (error) {
    return failed(execution, action, error);
  }
}

/** The manifest of a tree whose repository has another name now. */
function renamed(manifest: Manifest, repository: Action['repository']): Manifest {
  const { id, name, fullName, url } = repository;
  const oldPrefix = `${manifest.repository.fullName}/`;
  const files = manifest.files.map((file) =>
    file.workbook?.id.startsWith(oldPrefix) === true
      ? {
          ...file,
          workbook: { ...file.workbook, id: `${fullName}/${file.workbook.id.slice(oldPrefix.length)}` },
        }
      : file,
  );
  return { ...manifest, repository: { ...manifest.repository, id, name, fullName, url }, files };
}

/**
 * Pulls a target, and puts right with it what was known to differ in its tree. What is found to differ meanwhile waits for the
 * next pass, as the pull may have looked at it before.
 */
async function pullNoted<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: PullAction,
): Promise<ActionResult | null> {
  const { drifted } = execution.context;
  const path = action.published?.path ?? action.path;
  const wasDrifted = drifted.delete(path);
  const result = await pullOne(execution, action);
  if (wasDrifted && result !== null && result.outcome.kind !== 'pulled') drifted.add(path);
  return result;
}

/** Pulls that most often find nothing to publish; the others are not downloaded while a lease keeps them from being published. */
const WORTH_A_LOOK: ReadonlySet<PullReason> = new Set(['full-check', 'no-version-list', 'confirm-gone']);

/** Pulls a target; null when the service has it no longer, and its time has come. */
async function pullOne<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: PullAction,
): Promise<ActionResult | null> {
  const { context, listing, repositories, rows, approvals, policy, signal } = execution;
  const repository = repositories.get(action.target.repositoryId);
  if (repository === undefined) throw new MirrorError('internal.defect', `No repository for ${action.path}.`);
  try {
    const lease = WORTH_A_LOOK.has(action.reason) ? null : lastLease(await context.store.leases());
    if (lease !== null) return heldByLease(execution, action, lease);
    context.emit({ name: 'target.started', target: action.path, reason: action.reason });
    const repositoryRows = rows === null ? null : (rows.get(repository.fullName) ?? []);
    const pulled = await pullTarget(context, {
      action,
      repository,
      rows: repositoryRows,
      listing,
      guard: policy.guard.files,
      approvals,
      signal,
    });
    if (pulled.kind === 'not-found') return await notFound(execution, action, pulled.isCertain);
    if (pulled.kind === 'guarded') {
      const { held, downloadedBytes } = pulled;
      const outcome = { kind: 'guarded', held, fingerprint: action.fingerprint } as const;
      return { action, outcome, downloadedBytes, changedFiles: 0 };
    }
    const { facts, manifest, isExamined } = pulled;
    const { skipped, publishedAtMs } = manifest;
    const changedFiles = facts.added + facts.changed + facts.removed;
    const [first] = skipped;
    if (first !== undefined && changedFiles > 0) {
      context.emit({
        name: 'target.skipped_entries',
        target: action.path,
        count: skipped.length,
        first: first.path,
      });
    }
    context.emit({ name: 'target.pulled', ...facts });
    return {
      action,
      outcome: { kind: 'pulled', changedFiles, publishedAtMs, isExamined, isWhole: true },
      downloadedBytes: facts.downloadedBytes,
      changedFiles,
    };
  } catch (error) {
    return failed(execution, action, error);
  }
}

/** Makes a function that does something the first time only. */
function once<Value>(work: (value: Value) => void): (value: Value) => void {
  let isDone = false;
  return (value) => {
    if (!isDone) work(value);
    isDone = true;
  };
}
