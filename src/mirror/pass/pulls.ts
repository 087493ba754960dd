import type { Action, PullAction } from '../plan/actions.ts';
import { rowsByRepository } from '../plan/fingerprint.ts';
import { joinSignals } from '../../lib/concurrency/concurrency.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { emptyRecord, type TargetRecord } from '../plan/record.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';
import type { Execution, Pull, RepositoryFacts, ActionResult, EndedResult } from './execution.ts';
import type { BegunPull, QueuedPull } from './queue.ts';
import { pullTarget } from './pull.ts';
import { recordPull, recordQueued, tolerateStateFailure } from './record.ts';

/**
 * Pulls targets in the order of the queue, and records what becomes of each, for as long as the queue makes the pass wait.
 * @returns a result for each
 * @throws MirrorError `credentials.refused`, `pass.abandoned`, `internal.defect`
 */
export async function pullAll(
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
export function unfinishedResult({ context }: Pick<Execution, 'context'>, action: Action): ActionResult {
  // One that went on when the plan was made may have ended meanwhile.
  const hasBegun = action.reason === 'still-pulling' || context.queue.running().has(keyOf(action));
  return { action, outcome: { kind: 'unfinished', hasBegun }, downloadedBytes: 0, changedFiles: 0 };
}

function queuePulls(
  { context, policy, listing, records, trees, approvals, plan, signal, noteLease }: Execution,
  actions: readonly PullAction[],
): QueuedPull<EndedResult>[] {
  if (actions.length === 0) return [];
  const factsFor = repositoryFacts(listing, plan);
  return actions.map((action): QueuedPull<EndedResult> => {
    const facts = factsFor(action);
    const { repository } = facts;
    const record = records.get(keyOf(action)) ?? emptyRecord(action.target);
    const pull = {
      context,
      policy,
      approvals,
      noteLease,
      action,
      ...facts,
      record,
      tree: trees.get(action.published?.path ?? action.path) ?? null,
    };
    return {
      action,
      repositoryId: repository.id,
      service: context.service,
      waitingSinceMs: waitingSinceMs(record),
      sizeBytes: action.byWorkbook !== 'no' ? 0 : (action.published?.archiveBytes ?? null),
      begin: (turn) => {
        const meter = context.monitor.begin(action.path, action.published?.archiveBytes ?? null);
        const either = joinSignals(signal, turn.signal);
        return beginPull({ ...pull, meter, turn, signal: either.signal }, either.leave);
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
  const rows = workbooks === null ? null : rowsByRepository(workbooks);
  const branches = branchesOf(plan);
  return ({ target, path }) => {
    const repository = byId.get(target.repositoryId);
    if (repository === undefined) throw new MirrorError('internal.defect', `No repository for ${path}.`);
    return {
      repository,
      rows: rows === null ? null : (rows.get(repository.fullName)?.all ?? []),
      branches: branches.get(repository.id) ?? [],
      listedAtMs: takenAtMs,
    };
  };
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

/** Since when a target waits for its turn: since it was last found to be right, or tried. Milliseconds since the epoch. */
function waitingSinceMs({ verifiedAtMs, failure }: TargetRecord): number {
  return Math.max(verifiedAtMs ?? 0, failure?.lastAtMs ?? 0);
}

/** Begins a pull, and reports it where it takes long. */
function beginPull(pull: Pull, leaveSignals: () => void): BegunPull<EndedResult> {
  const { emit, now } = pull.context;
  const target = pull.action.path;
  const startedAtMs = now();
  let isSlow = false;
  const onEnd = (result: string): void => {
    leaveSignals();
    if (isSlow) emit({ name: 'target.slow_ended', target, result, durationMs: now() - startedAtMs });
  };
  return {
    onSlow: () => {
      isSlow = true;
      emit({ name: 'target.slow', target, startedAtMs });
    },
    ended: pullAndRecord(pull, onEnd),
  };
}

/** Pulls a target and records the outcome. Repairs known differences in its tree at the same time. */
async function pullAndRecord(pull: Pull, onEnd: (result: string) => void): Promise<EndedResult> {
  const { context } = pull;
  let became = '';
  try {
    const { result, news } = await pullTarget(pull);
    became = result.outcome.kind;
    await recordPull(pull, result);
    if (became === 'pulled') await endRepair(pull);
    // Emitted after recording: a listener that reads the records must find the news there.
    for (const event of news) context.emit(event);
    return result;
  } catch (error) {
    const { code } = toMirrorError(error);
    became = code === 'pass.abandoned' ? 'called off' : code;
    throw error;
  } finally {
    onEnd(became);
  }
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
