import { marked } from '../store/history/history.ts';
import { publishedManifest } from '../store/inventory.ts';
import { moveTree, retireTree } from '../store/publish/publish.ts';
import {
  type Action,
  type ActionResult,
  type EndedResult,
  holdOf,
  outcomeOfHold,
  type PullAction,
  resultOf,
  type RetireAction,
} from '../plan/actions.ts';
import { approvalOf } from '../plan/guard.ts';
import { renamedManifest } from '../plan/workbooks.ts';
import { targetKey } from '../upstream/listing.ts';
import { type PassContext, type Pull, repositoryFacts, type RunningPass } from './context.ts';
import { isReachable, notFoundError } from './receive.ts';
import { forget, recordAll, recordEnds, recordQueued, rememberedOf, withdraw } from './record.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import type { QueuedPull, PullControls } from './queue.ts';
import { pullTarget, resultOfFailure } from './pull.ts';

/** Outcomes of pulls that leave the published tree in its place. */
const KEEPS_PLACE: ReadonlySet<ActionResult['outcome']['kind']> = new Set(['failed', 'held', 'unfinished']);

/**
 * Carries a plan out: first what needs no contents, then the pulls, last the retirements. One target's failure is
 * its own; only a refused credential ends the pass, because it would fail every other target too.
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function executePlan(pass: RunningPass): Promise<ActionResult[]> {
  const { context, plan } = pass;
  // Pulls of earlier passes that the plan cancels must end before it touches their targets.
  const goingOn = new Set(plan.filter(isStillPulling).map(keyOf));
  await context.queue.callOff(({ action }) => !goingOn.has(keyOf(action)));
  const done: EndedResult[] = [];
  const pulled: ActionResult[] = [];
  const pulls: PullAction[] = [];
  const leaving: RetireAction[] = [];
  for (const action of plan) {
    const obstacle = await moveTarget(pass, action);
    if (obstacle !== null) done.push(obstacle);
    else if (action.kind === 'pull') pulls.push(action);
    else if (action.kind === 'retire') leaving.push(action);
    else if (isStillPulling(action)) pulled.push(unfinishedResult(context, action));
    else done.push(resultOf(action, action.kind === 'keep' ? { kind: 'kept' } : outcomeOfHold(action)));
  }
  await recordAll(pass, done);
  pulled.push(...(await pullAll(pass, pulls)));
  // Retirements. If a new repository takes over a path, the old tree stays until the new tree is published.
  const stay = pulled.filter(({ outcome }) => KEEPS_PLACE.has(outcome.kind));
  const taken = new Set(stay.map(({ action }) => action.path));
  const retired: EndedResult[] = [];
  const counting: EndedResult[] = [];
  for (const action of leaving) {
    // Every action needs a result: without one, its approval would count as used.
    const result = taken.has(action.path)
      ? resultOf(holdOf(action, 'repository-missing'), { kind: 'missing' })
      : await retire(pass, action);
    retired.push(result);
    // A duplicate shares its record and approval with the tree that counts, so nothing is recorded for it, even during a lease.
    if (action.reason !== 'duplicate') counting.push(result);
  }
  await recordAll(pass, counting);
  const results = [...done, ...pulled, ...retired];
  await forget(pass, results);
  await withdraw(pass, [...done, ...pulled, ...counting]);
  return results;
}

function isStillPulling({ reason }: Action): boolean {
  return reason === 'still-pulling';
}

function keyOf({ target }: Action): string {
  return targetKey(target);
}

/** Moves the tree of a renamed repository. Returns the result of the action if the move fails. */
async function moveTarget({ context, signal }: RunningPass, action: Action): Promise<EndedResult | null> {
  const { path, moveFrom: from } = action;
  if (from === null) return null;
  try {
    const manifest = await publishedManifest(context.store.layout, from);
    if (manifest === null) return null;
    await moveTree(context.store, from, path, renamedManifest(manifest, action.repository), signal);
    context.emit({ name: 'target.moved', from, target: path });
    return null;
  } catch (error) {
    return resultOfFailure(context, action, error, signal);
  }
}

/** Moves a tree out of the mirror, unless another repository's tree has taken its place, or its branch is back. */
async function retire(pass: RunningPass, action: RetireAction): Promise<EndedResult> {
  const { context, approvals, signal } = pass;
  const { path, target, reason } = action;
  try {
    const manifest = await publishedManifest(context.store.layout, path);
    const isStillThere = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
    if (!isStillThere) return resultOf(action, { kind: 'retired' });
    if (reason === 'branch-gone' && (await isBack(pass, action))) return resultOf(action, { kind: 'held' });
    const subject = reason === 'moved' ? reason : 'target';
    const approval = approvalOf(approvals, target, { subject, digest: null });
    if (approval !== null && subject === 'target')
      context.emit({ name: 'deletion.approved', target: path, subject });
    await retireTree(context.store, path, signal, marked(manifest, approval));
    context.emit({ name: 'target.retired', target: path, reason });
    return resultOf(action, { kind: 'retired' });
  } catch (error) {
    return resultOfFailure(context, action, error, signal);
  }
}

/**
 * Whether the service has contents of a branch again, which a list may not show: this is the last of the answers that must lack it.
 * @throws MirrorError `contents.not_found` if nothing of its repository is found, or the answer proves nothing
 */
async function isBack(pass: RunningPass, action: RetireAction): Promise<boolean> {
  const { signal } = pass;
  const { service } = pass.context;
  const { repository, target } = action;
  const { branches } = repositoryFacts(pass)(action);
  if (!(await isReachable(service, action, branches, signal))) throw notFoundError(action);
  const found = await service.exists({ repository, branch: target.branch, path: '', signal });
  if (found === null) throw notFoundError(action);
  return found;
}

/**
 * Pulls targets in the order of the queue, and records each outcome. Returns when the queue lets the pass go on.
 * @returns a result for each
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
async function pullAll(pass: RunningPass, actions: readonly PullAction[]): Promise<readonly ActionResult[]> {
  const { context, policy, approvals, signal } = pass;
  await recordQueued(pass, actions);
  const factsFor = repositoryFacts(pass);
  const pulls = actions.map((action) => {
    const facts = { ...factsFor(action), ...rememberedOf(pass, action), approvals, guard: policy.guard };
    return queuedPull({ context, action, signal, ...facts });
  });
  const ended = await context.queue.run(pulls, policy);
  const keys = new Set(ended.map(({ action }) => keyOf(action)));
  const unfinished = actions.filter((action) => !keys.has(keyOf(action)));
  return [...ended, ...unfinished.map((action) => unfinishedResult(context, action))];
}

/** A pull that has not begun, and the signal of its pass. */
type PlannedPull = Omit<Pull, 'meter' | 'onProgress' | 'toPublish' | 'isInDoubt'>;

function queuedPull(planned: PlannedPull): QueuedPull {
  const { context, action, record } = planned;
  return {
    action,
    service: context.service,
    // Since when it waits for a slot: since its target was last verified, or tried.
    waitingSinceMs: Math.max(record.verifiedAtMs ?? 0, record.failure?.lastAtMs ?? 0),
    sizeBytes: action.byWorkbook === 'no' ? (action.published?.archiveBytes ?? null) : 0,
    run: (controls) => pullAndRecord(planned, controls),
  };
}

/** The result of a pull that is still running, or waits for a slot. */
function unfinishedResult({ queue }: Pick<PassContext, 'queue'>, action: Action): ActionResult {
  // A pull that was running when the plan was made may have ended since.
  const hasBegun = isStillPulling(action) || queue.running().has(keyOf(action));
  return { action, outcome: { kind: 'unfinished', hasBegun }, downloadedBytes: 0, changedFiles: 0 };
}

/** Pulls a target and records the outcome. */
async function pullAndRecord(
  planned: PlannedPull,
  { signal, toPublish }: PullControls,
): Promise<EndedResult> {
  const { context, action, record, tree, listedAtMs } = planned;
  const { onProgress } = context.store;
  const meter = context.monitor.begin(action.path, action.published?.archiveBytes ?? null);
  const either = joinSignals(planned.signal, signal);
  try {
    const isInDoubt = record.doubt !== null;
    const pull = { ...planned, signal: either.signal, isInDoubt, toPublish, meter, onProgress };
    const { news = [], ...result } = await pullTarget(pull);
    await recordEnds(context, listedAtMs, [{ ...result, news, record, tree }]);
    return result;
  } finally {
    either.leave();
    context.monitor.end(meter);
  }
}
