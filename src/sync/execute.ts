import { MirrorError, toMirrorError } from '../model/errors.ts';
import type { Manifest } from '../model/manifest.ts';
import type { Action, PullAction, RetireAction } from '../model/plan.ts';
import {
  emptyRecord,
  nextRecord,
  type Outcome,
  type RetryPolicy,
  type TargetRecord,
} from '../model/record.ts';
import {
  byRepository,
  HEAD_BRANCH,
  type Listing,
  type Repository,
  targetKey,
  type WorkbookRow,
} from '../model/service.ts';
import { forEachConcurrently } from './concurrency.ts';
import type { PassContext, StagePort } from './ports.ts';
import { pullTarget } from './pull.ts';
import { tolerateStateFailure } from './state-failures.ts';

/** What became of one action. */
export interface ActionResult {
  readonly action: Action;
  readonly outcome: Outcome;
  readonly downloadedBytes: number;
  readonly changedFiles: number;
}

/** How a plan is carried out. */
export interface ExecutePolicy {
  /** Pulls at once. */
  readonly concurrency: number;
  readonly retry: RetryPolicy;
  readonly retireAfterPasses: number;
}

/** A plan on its way. */
interface Execution<Stage extends StagePort> {
  readonly context: PassContext<Stage>;
  readonly policy: ExecutePolicy;
  readonly listing: Listing;
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly repositories: ReadonlyMap<string, Repository>;
  readonly rows: ReadonlyMap<string, readonly WorkbookRow[]> | null;
  readonly plan: readonly Action[];
  readonly signal: AbortSignal;
}

/**
 * Carries a plan out: what needs no contents first, then the pulls, last what leaves the mirror. One target's failure is
 * its own; only a refused credential ends the pass, because it would fail every other target too.
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function executePlan<Stage extends StagePort>(
  context: PassContext<Stage>,
  policy: ExecutePolicy,
  listing: Listing,
  records: ReadonlyMap<string, TargetRecord>,
  plan: readonly Action[],
  signal: AbortSignal,
): Promise<ActionResult[]> {
  const execution: Execution<Stage> = {
    context,
    policy,
    listing,
    records,
    repositories: new Map(listing.repositories.map((repository) => [repository.id, repository])),
    rows: listing.workbooks === null ? null : byRepository(listing.workbooks),
    plan,
    signal,
  };
  const results: ActionResult[] = [];
  const settled: ActionResult[] = [];
  const pulls: PullAction[] = [];
  for (const action of plan) {
    const obstacle = await moveFirst(execution, action);
    if (obstacle !== null) settled.push(resultOf(action, obstacle));
    else if (action.kind === 'keep') settled.push(resultOf(action, { kind: 'kept' }));
    else if (action.kind === 'hold')
      settled.push(resultOf(action, { kind: action.missing ? 'missing' : 'held' }));
    else if (action.kind === 'pull') pulls.push(action);
  }
  await record(execution, settled);
  await forEachConcurrently(pulls, policy.concurrency, async (action) => {
    const result = await pullOne(execution, action);
    await record(execution, [result]);
    results.push(result);
  });
  for (const action of plan) {
    if (action.kind === 'retire') results.push(await retireOne(execution, action));
  }
  await forget(execution, plan, results);
  return [...settled, ...results];
}

function resultOf(action: Action, outcome: Outcome): ActionResult {
  return { action, outcome, downloadedBytes: 0, changedFiles: 0 };
}

/** Forgets what is remembered of targets that are no more: retired, or neither listed nor mirrored any longer. */
async function forget<Stage extends StagePort>(
  { context, records, listing }: Execution<Stage>,
  plan: readonly Action[],
  results: readonly ActionResult[],
): Promise<void> {
  const alive = new Set(plan.map((action) => targetKey(action.target)));
  for (const { action, outcome } of results) {
    if (outcome.kind === 'retired') alive.delete(targetKey(action.target));
  }
  if (!listing.repositoriesComplete || listing.repositories.length === 0) return;
  const gone = [...records.values()].filter((each) => !alive.has(targetKey(each.target)));
  await tolerateStateFailure(context.emit, () => context.state.forgetRecords(gone), undefined);
}

/** Remembers what became of actions. */
async function record<Stage extends StagePort>(
  { context, policy, listing, records }: Execution<Stage>,
  results: readonly ActionResult[],
): Promise<void> {
  const nowMs = context.now();
  const next = results.map(({ action, outcome }) => {
    const before = records.get(targetKey(action.target)) ?? emptyRecord(action.target);
    const { kind, reason } = action;
    const repository = action.path.slice(0, action.path.lastIndexOf('/'));
    const step = {
      repository,
      kind,
      reason,
      outcome,
      listedAtMs: listing.takenAtMs,
      nowMs,
      random: context.random(),
    };
    const after = nextRecord(before, step, policy.retry);
    report(context, action, outcome, before, after);
    return after;
  });
  await tolerateStateFailure(context.emit, () => context.state.saveRecords(next), undefined);
}

function report<Stage extends StagePort>(
  context: PassContext<Stage>,
  action: Action,
  outcome: Outcome,
  before: TargetRecord,
  after: TargetRecord,
): void {
  const target = action.path;
  if (outcome.kind === 'failed' && after.failure !== null) {
    const { code, message, hint, attempts, nextAttemptAtMs } = after.failure;
    context.emit({ name: 'target.failed', target, code, message, hint, attempts, nextAttemptAtMs });
  }
  if (outcome.kind === 'missing')
    context.emit({ name: 'target.missing', target, passes: after.missingPasses });
  if (outcome.kind === 'absent' && before.absentSinceMs === null)
    context.emit({ name: 'target.absent', target });
  const isNews = before.decisions[0]?.kind !== 'hold' || before.decisions[0].reason !== action.reason;
  if (action.kind === 'hold' && isNews) {
    context.emit({ name: 'target.held', target, reason: action.reason, untilMs: action.untilMs });
  }
}

/** Moves the tree of a renamed repository. Gives the failure, if that does not go. */
async function moveFirst<Stage extends StagePort>(
  { context, signal }: Execution<Stage>,
  action: Action,
): Promise<Outcome | null> {
  const from = action.moveFrom;
  if (from === null) return null;
  try {
    const manifest = await context.store.manifest(from);
    if (manifest === null) return null;
    await context.store.move(from, action.path, renamed(manifest, action.repository));
    context.emit({ name: 'target.moved', from, target: action.path });
    return null;
  } catch (error) {
    return failed(error, action, signal);
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
  return { ...manifest, repository: { id, name, fullName, url }, files };
}

async function pullOne<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: PullAction,
): Promise<ActionResult> {
  const { context, listing, repositories, rows, signal } = execution;
  const repository = repositories.get(action.target.repositoryId);
  if (repository === undefined) throw new MirrorError('internal.defect', `No repository for ${action.path}.`);
  context.emit({ name: 'target.started', target: action.path, reason: action.reason });
  try {
    const repositoryRows = rows === null ? null : (rows.get(repository.fullName) ?? []);
    const pulled = await pullTarget(context, { action, repository, rows: repositoryRows, listing, signal });
    if (pulled.kind === 'not-found') return await notFound(execution, action, pulled.isCertain);
    const { facts, skipped } = pulled;
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
      outcome: { kind: 'pulled', changedFiles },
      downloadedBytes: facts.downloadedBytes,
      changedFiles,
    };
  } catch (error) {
    return resultOf(action, failed(error, action, signal));
  }
}

/** @throws MirrorError what ends the whole pass */
function failed(error: unknown, action: Action, signal: AbortSignal): Outcome {
  const mirrorError = toMirrorError(error);
  if (signal.aborted) throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: error });
  if (mirrorError.code === 'credentials.refused') throw mirrorError;
  const { code, message, hint, retryAfterMs } = mirrorError;
  return {
    kind: 'failed',
    code,
    action: mirrorError.action,
    message,
    hint: hint ?? null,
    retryAfterMs: retryAfterMs ?? 0,
    fingerprint: action.fingerprint,
  };
}

/** The service has no contents for the target: what that means depends on what else it says. */
async function notFound<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: PullAction,
  isCertain: boolean,
): Promise<ActionResult> {
  switch (action.whenAbsent) {
    case 'accept':
      return resultOf(action, { kind: 'absent' });
    case 'count-as-missing': {
      if (!isCertain || !(await isRepositoryReachable(execution, action))) throw notFoundError(action);
      const before = execution.records.get(targetKey(action.target))?.missingPasses ?? 0;
      if (before + 1 < execution.policy.retireAfterPasses) return resultOf(action, { kind: 'missing' });
      await execution.context.store.retire(action.path);
      execution.context.emit({ name: 'target.retired', target: action.path, reason: 'branch-gone' });
      return resultOf(action, { kind: 'retired' });
    }
    case 'fail':
      throw notFoundError(action);
  }
}

/** Whether other contents of a repository are found: only then does a missing branch say something about the branch. */
async function isRepositoryReachable<Stage extends StagePort>(
  { context, repositories, plan, signal }: Execution<Stage>,
  { target }: PullAction,
): Promise<boolean> {
  const repository = repositories.get(target.repositoryId);
  if (repository === undefined) return false;
  const others = plan
    .filter(
      (each) => each.target.repositoryId === target.repositoryId && each.target.branch !== target.branch,
    )
    .map((each) => each.target.branch);
  for (const branch of [HEAD_BRANCH, ...others]) {
    if (await context.service.exists({ repository, branch, path: '', signal })) return true;
  }
  return false;
}

function notFoundError(action: PullAction): MirrorError {
  const { branch } = action.target;
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(branch)} of ${action.repository.fullName} (status 404).`,
    {
      hint: 'What is mirrored stays as it is. If the setting targets names this branch, check its spelling; otherwise the service contradicts its own lists.',
    },
  );
}

async function retireOne<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: RetireAction,
): Promise<ActionResult> {
  const { context, signal } = execution;
  try {
    const manifest = await context.store.manifest(action.path);
    const isStillThere =
      manifest?.repository.id === action.target.repositoryId && manifest.branch === action.target.branch;
    if (isStillThere) {
      await context.store.retire(action.path);
      context.emit({ name: 'target.retired', target: action.path, reason: action.reason });
    }
    return resultOf(action, { kind: 'retired' });
  } catch (error) {
    const result = resultOf(action, failed(error, action, signal));
    await record(execution, [result]);
    return result;
  }
}
