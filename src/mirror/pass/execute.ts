import { publishedManifest } from '../store/inventory.ts';
import { moveTree, retireTree } from '../store/publish/relocate.ts';
import type { Action, HoldAction, PullAction, RetireAction } from '../plan/actions.ts';
import { isApproved } from '../plan/guard.ts';
import type { Manifest } from '../store/manifest.ts';
import { type Outcome, emptyRecord, type TargetRecord } from '../plan/record.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';
import {
  type ExecutePolicy,
  type Execution,
  failed,
  type PlannedPass,
  type PassContext,
  type Pull,
  type RepositoryFacts,
} from './execution.ts';
import { type ActionResult, type EndedResult, resultOf } from './results.ts';
import { isReachable, notFoundError } from './receive.ts';
import { forget, recordAll, withdraw, recordPull, recordQueued, tolerateStateFailure } from './record.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { QueuedPull } from './queue.ts';
import { pullTarget } from './pull.ts';

/**
 * Carries a plan out: what needs no contents first, then the pulls, last what leaves the mirror. One target's failure is
 * its own; only a refused credential ends the pass, because it would fail every other target too.
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function executePlan(
  context: PassContext,
  policy: ExecutePolicy,
  listing: Listing,
  planned: PlannedPass,
  signal: AbortSignal,
): Promise<ActionResult[]> {
  const execution: Execution = { context, policy, listing, ...planned, signal };
  await callOffUnwanted(execution);
  const { done, unmoved, untouched, pulls } = await doWithoutContents(execution);
  const pulled = await pullAll(execution, pulls);
  const retired: EndedResult[] = [];
  const counting: EndedResult[] = [];
  const due = execution.plan.filter((action) => !unmoved.has(action));
  for (const action of dueRetirements(due, [...untouched, ...pulled])) {
    const result = await retire(execution, action);
    retired.push(result);
    // A duplicate shares its record and approval with the tree that counts, so nothing is remembered of it, also where a lease holds it.
    if (action.reason !== 'duplicate') counting.push(result);
  }
  await recordAll(execution, counting);
  const others = [...done, ...untouched, ...pulled];
  await forget(execution, [...others, ...retired]);
  await withdraw(execution, [...others, ...counting]);
  return [...others, ...retired];
}

/** Ends the pulls of earlier passes that the plan does not let go on, before it touches what they are about. */
async function callOffUnwanted({ context, plan }: Execution): Promise<void> {
  const wanted = new Set(plan.filter(isStillPulling).map(({ target }) => targetKey(target)));
  await context.queue.callOff(({ action }) => !wanted.has(keyOf(action)));
}

function isStillPulling({ reason }: Action): boolean {
  return reason === 'still-pulling';
}

/**
 * The trees that are to leave the mirror now. That of a gone repository stays in its place until the new one's, which was to take
 * it, is there.
 */
function dueRetirements(plan: readonly Action[], results: readonly ActionResult[]): RetireAction[] {
  const waiting = results.filter(({ outcome }) => KEEPS_PLACE.has(outcome.kind));
  const places = new Set(waiting.map(({ action }) => action.path));
  return plan.filter((action) => action.kind === 'retire').filter(({ path }) => !places.has(path));
}

/** Outcomes of pulls after which the published tree stays where it is. */
const KEEPS_PLACE: ReadonlySet<ActionResult['outcome']['kind']> = new Set(['failed', 'held', 'unfinished']);

/** Carries out actions that need no contents, and gives the pulls that are left. */
async function doWithoutContents(execution: Execution): Promise<{
  readonly done: readonly EndedResult[];
  /** Actions of which the tree could not be moved to where they expect it. */
  readonly unmoved: ReadonlySet<Action>;
  /** Targets of which a pull of an earlier pass goes on. */
  readonly untouched: readonly ActionResult[];
  readonly pulls: readonly PullAction[];
}> {
  const done: EndedResult[] = [];
  const unmoved = new Set<Action>();
  const untouched: ActionResult[] = [];
  const pulls: PullAction[] = [];
  for (const action of execution.plan) {
    const obstacle = action.moveFrom === null ? null : await moveTarget(execution, action, action.moveFrom);
    if (obstacle !== null) {
      unmoved.add(action);
      done.push(obstacle);
    } else if (action.kind === 'keep') done.push(resultOf(action, { kind: 'kept' }));
    else if (isStillPulling(action)) untouched.push(unfinishedResult(execution, action));
    else if (action.kind === 'hold') done.push(resultOf(action, outcomeOfHold(action)));
    else if (action.kind === 'pull') pulls.push(action);
  }
  await recordAll(execution, done);
  return { done, unmoved, untouched, pulls };
}

function outcomeOfHold({ guarded, reason, fingerprint }: HoldAction): Outcome {
  if (guarded !== null) return { kind: 'guarded', held: guarded, fingerprint };
  return { kind: reason === 'repository-missing' ? 'missing' : 'held' };
}

/** Moves the tree of a renamed repository. Gives the result of the action if the move fails. */
async function moveTarget(execution: Execution, action: Action, from: string): Promise<EndedResult | null> {
  const { context } = execution;
  try {
    const manifest = await publishedManifest(context.store.layout, from);
    if (manifest === null) return null;
    await moveTree(context.store, from, action.path, renamed(manifest, action.repository), execution.signal);
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

/** Moves a tree out of the mirror, unless the tree of another repository has its place now, or its branch is back. */
async function retire(execution: Execution, action: RetireAction): Promise<EndedResult> {
  const { context, approvals, signal } = execution;
  const { path, target, reason } = action;
  try {
    const manifest = await publishedManifest(context.store.layout, path);
    const isStillThere = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
    if (isStillThere) {
      if (reason === 'branch-gone' && (await isBack(execution, action)))
        return resultOf(action, { kind: 'held' });
      const subject = 'target';
      if (isApproved(approvals, target, { subject, digest: null }))
        context.emit({ name: 'deletion.approved', target: path, subject });
      await retireTree(context.store, path, signal);
      context.emit({ name: 'target.retired', target: path, reason });
    }
    return resultOf(action, { kind: 'retired' });
  } catch (error) {
    return failed(execution, action, error);
  }
}

/**
 * Whether the service has contents of a branch again, which no list may show: this is the last of the answers that must lack it.
 * @throws MirrorError `contents.not_found` where nothing of its repository is found
 */
async function isBack(
  { context: { service }, listing, plan, signal }: Execution,
  action: RetireAction,
): Promise<boolean> {
  const facts = repositoryFacts(listing, plan)(action);
  if (!(await isReachable(service, action, facts, signal))) throw notFoundError(action);
  const { repository } = facts;
  return service.exists({ repository, branch: action.target.branch, path: '', signal });
}

/**
 * Pulls targets in the order of the queue, and records what becomes of each, for as long as the queue makes the pass wait.
 * @returns a result for each
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
async function pullAll(
  execution: Execution,
  actions: readonly PullAction[],
): Promise<readonly ActionResult[]> {
  const { concurrency, slowAfterMs } = execution.policy;
  await recordQueued(execution, actions);
  const pulls = queuePulls(execution, actions);
  const ended = await execution.context.queue.run(pulls, { concurrency, slowAfterMs });
  const keys = new Set(ended.map(({ action }) => keyOf(action)));
  const unfinished = actions.filter((action) => !keys.has(keyOf(action)));
  return [...ended, ...unfinished.map((action) => unfinishedResult(execution, action))];
}

function keyOf({ target }: Action): string {
  return targetKey(target);
}

/** The result of a pull that goes on, or waits for a place. */
function unfinishedResult({ context }: Pick<Execution, 'context'>, action: Action): ActionResult {
  // A pull that went on when the plan was made may have ended since.
  const hasBegun = action.reason === 'still-pulling' || context.queue.running().has(keyOf(action));
  return { action, outcome: { kind: 'unfinished', hasBegun }, downloadedBytes: 0, changedFiles: 0 };
}

function queuePulls(execution: Execution, actions: readonly PullAction[]): QueuedPull[] {
  if (actions.length === 0) return [];
  const { context, policy, listing, records, trees, approvals, plan, signal } = execution;
  const factsFor = repositoryFacts(listing, plan);
  return actions.map((action): QueuedPull => {
    const record = records.get(keyOf(action)) ?? emptyRecord(action.target);
    const tree = trees.get(action.published?.path ?? action.path) ?? null;
    const pull = { context, policy, approvals, action, ...factsFor(action), record, tree };
    const archiveBytes = action.published?.archiveBytes ?? null;
    return {
      action,
      service: context.service,
      waitingSinceMs: waitingSinceMs(record),
      sizeBytes: action.byWorkbook === 'no' ? archiveBytes : 0,
      run: async (turn) => {
        const meter = context.monitor.begin(action.path, archiveBytes);
        const either = joinSignals(signal, turn.signal);
        try {
          return await pullAndRecord({ ...pull, meter, turn, signal: either.signal });
        } finally {
          either.leave();
          meter.end();
        }
      },
    };
  });
}

/** Makes a function that gives the facts about the repository of an action. */
export function repositoryFacts(
  { repositories, workbooks, takenAtMs }: Listing,
  plan: readonly Action[],
): (action: Action) => RepositoryFacts {
  const byId = new Map(repositories.map((repository) => [repository.id, repository]));
  const rows = workbooks === null ? null : Map.groupBy(workbooks, (row) => row.repository);
  // One array for all pulls of a repository: it may have thousands of branches.
  const branches = new Map(
    [...Map.groupBy(plan, ({ target }) => target.repositoryId)].map(([id, actions]) => [
      id,
      actions.map(({ target }) => target.branch),
    ]),
  );
  return ({ target, path }) => {
    const repository = byId.get(target.repositoryId);
    if (repository === undefined) throw new MirrorError('internal.defect', `No repository for ${path}.`);
    return {
      repository,
      rows: rows === null ? null : (rows.get(repository.fullName) ?? []),
      branches: branches.get(repository.id) ?? [],
      listedAtMs: takenAtMs,
    };
  };
}

/** Since when a target waits for its turn: since it was last found to be right, or tried. Milliseconds since the epoch. */
function waitingSinceMs({ verifiedAtMs, failure }: TargetRecord): number {
  return Math.max(verifiedAtMs ?? 0, failure?.lastAtMs ?? 0);
}

/** Pulls a target and records the outcome. Repairs known differences in its tree at the same time. */
async function pullAndRecord(pull: Pull): Promise<EndedResult> {
  const { result, news } = await pullTarget(pull);
  await recordPull(pull, result);
  if (result.outcome.kind === 'pulled') await endRepair(pull);
  // Emitted after recording: a listener that reads the records must find the news there.
  for (const event of news) pull.context.emit(event);
  return result;
}

/**
 * Notes that a thorough pull has repaired a tree. A shallow pull does not find every difference, and one that was found since the pull
 * began waits for the next pass.
 */
async function endRepair({ context: { state }, action, record: { drift } }: Pull): Promise<void> {
  const isThorough = action.depth === 'bytes' || action.published === null;
  if (!isThorough || drift === null) return;
  const { target, path } = action;
  await tolerateStateFailure(() => state.saveDrift(target, path, null, drift), undefined);
}
