import { sinceMs } from '../../lib/time/monotonic.ts';
import { diskError } from '../../lib/errors/disk-errors.ts';
import { type ExitCode, MirrorError } from '../../lib/errors/errors.ts';
import { eventFailure, type PassFinished, type Trigger } from './events.ts';
import {
  type ActionResult,
  keepRunningPulls,
  type PlanPolicy,
  type PullAction,
  type Retries,
} from '../plan/actions.ts';
import { checkSelection, isOtherServiceApproved, listsNoneOf } from '../plan/selection.ts';
import { makePlan } from '../plan/plan.ts';
import { recordsUpToNow, type TargetRecord } from '../plan/record.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';
import { executePlan } from './execute.ts';
import type { PassContext, PassPolicy, PlannedPass } from './context.ts';
import {
  countsOf,
  exitCodeOfPass,
  flaggedIn,
  isAllThatCanBe,
  reportLost,
  reportSelection,
  reportUnplanned,
  reportUpstream,
  stillAwaited,
  summarise,
} from './reports.ts';
import { type KeptTargets, type State, type StoredPass } from '../state/state.ts';
import { publishesWhole } from '../store/publish/moves.ts';
import { recover } from '../store/publish/journal.ts';
import { sweep } from '../store/publish/sweep.ts';
import type { StoreReader } from '../store/directory.ts';
import { readApprovals, readTargetList, saveTargets } from '../store/documents.ts';

/** How a pass went. */
export interface PassReport {
  readonly results: readonly ActionResult[];
  readonly summary: PassFinished;
  readonly exitCode: ExitCode;
  /** See {@link isAllThatCanBe}. */
  readonly isAllThatCanBe: boolean;
}

/**
 * One pass: polls the service, plans, pulls and publishes what changed, and records it.
 * @param retries targets that an operator wants tried now, although they wait for a time or for another version
 * @throws MirrorError when the pass as a whole fails: the service cannot be polled, refuses the credentials, or the pass
 *   is abandoned through `signal`
 */
export async function runPass(
  context: PassContext,
  policy: PassPolicy,
  trigger: Trigger,
  signal: AbortSignal,
  retries: Retries = new Set(),
): Promise<PassReport> {
  const startedAtMs = context.now();
  const beganMs = performance.now();
  context.emit({ name: 'pass.started', trigger });
  try {
    for (const target of await recover(context.store, signal))
      context.emit({ name: 'publish.recovered', target });
    const lost = await reportLost(context);
    const listing = await context.service.poll(signal, retries === 'all');
    context.emit({ name: 'listing.read', ...flaggedIn(listing) });
    const ofLists = await reportUpstream(context, listing, policy.selection);
    await context.store.lock.check();
    // Queued pulls are planned again. This comes before the disk is read: a pull that ends during that still counts as running, and
    // this pass leaves it alone.
    context.queue.clear();
    const planned = await planPass(context, policy, listing, new Map(context.queue.running()), retries);
    const { selection } = planned;
    reportSelection(context, selection);
    const problems = [...ofLists, ...reportUnplanned(context, planned.unplanned)];
    const results = await executePlan({ ...planned, context, policy, signal });
    await context.store.lock.check();
    // Before the history is pruned: a tree retired since the last inventory and pruned now would count as lost.
    await saveTargets(context.store, stillAwaited(lost, listing, results), listing.address);
    await sweepTrees(context, listing, signal);
    const summary = summarise(trigger, listing, results, sinceMs(beganMs));
    const isWhole = listing.repositoriesComplete;
    const pass = { trigger, startedAtMs, summary, failure: null, selection, isWhole, problems };
    const kept = results
      .filter(({ outcome }) => outcome.kind === 'kept')
      .map(({ action }) => targetKey(action.target));
    await rememberPass(context, pass, { listedAtMs: listing.takenAtMs, targets: new Set(kept) });
    context.emit({ name: 'pass.finished', ...summary });
    return {
      results,
      summary,
      exitCode: exitCodeOfPass(results, selection, listing),
      isAllThatCanBe: isAllThatCanBe(results, selection),
    };
  } catch (thrown) {
    const error = diskError(thrown, 'making a pass');
    await reportFailure(context, error, { trigger, startedAtMs, durationMs: sinceMs(beganMs) }, signal);
    throw error;
  }
}

/** The context of planning: nothing that writes. */
export interface PlanContext extends Pick<PassContext, 'emit' | 'now'> {
  readonly store: StoreReader;
  readonly state: Pick<State, 'records'>;
}

/**
 * Computes what a pass would do, from a listing, the disk and the records.
 * @param goingOn running pulls of earlier passes, by target key
 * @throws MirrorError `directory.other_service` if the listing is another service's, and no operator allowed that
 */
export async function planPass(
  context: PlanContext,
  policy: PlanPolicy,
  listing: Listing,
  goingOn: ReadonlyMap<string, { readonly action: PullAction }>,
  retries: Retries,
): Promise<PlannedPass> {
  const { layout, shard, inventory } = context.store;
  const { paths, published, others, unreadable, trees } = await inventory.read();
  const approvals = await readApprovals(layout);
  const mirrored = new Set([...published, ...others].map(({ repository }) => repository.id));
  const isOtherService =
    listsNoneOf(mirrored, listing) &&
    isOtherServiceApproved(listing, mirrored.size, approvals, (await readTargetList(layout)).address);
  // Without its records a pass still works from the disk: it only makes more requests.
  const remembered = await context.state.records().catch(() => new Map<string, TargetRecord>());
  const nowMs = context.now();
  const records = recordsUpToNow(remembered, nowMs);
  const found = { listing, published, others, shard, unreadable: new Set(unreadable), records, approvals };
  const plan = keepRunningPulls(makePlan({ ...found, policy, nowMs, retries }), goingOn, listing);
  context.emit({ name: 'pass.planned', ...countsOf(plan) });
  const selection = checkSelection(policy.selection, listing, plan, shard);
  const understood = new Set([...published, ...others, ...plan].map(({ path }) => path));
  // The manifests that one of several instances cannot read may be another one's.
  const unplanned = shard === null ? paths.filter((path) => !understood.has(path)) : [];
  return { listing, plan, records, trees, approvals, unplanned, isOtherService, selection };
}

/** A replaced tree that cannot be removed now is removed later: no reason to fail a pass that did its work. */
async function sweepTrees(
  { store, emit, now }: Pick<PassContext, 'store' | 'emit' | 'now'>,
  { serviceTimeMs }: Listing,
  signal: AbortSignal,
): Promise<void> {
  try {
    // If two clocks disagree, the one that is ahead would prune too much.
    const historyNowMs = Math.min(now(), serviceTimeMs ?? Number.POSITIVE_INFINITY);
    const { pruned, failure } = await sweep(store, historyNowMs, signal);
    for (const entry of pruned) emit({ name: 'history.pruned', entry });
    if (failure !== null) throw failure;
  } catch (error) {
    // A stop does not wait for this: the next pass removes the rest.
    if (signal.aborted) return;
    emit({ name: 'publish.sweep_failed', ...eventFailure(error) });
  }
}

async function reportFailure(
  context: PassContext,
  error: unknown,
  { trigger, startedAtMs, durationMs }: Pick<StoredPass, 'trigger' | 'startedAtMs'> & { durationMs: number },
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted || (error instanceof MirrorError && error.code === 'pass.abandoned')) {
    context.emit({ name: 'pass.abandoned', trigger, durationMs });
    return;
  }
  const failure = eventFailure(error);
  context.emit({ name: 'pass.failed', trigger, durationMs, ...failure });
  // The state cache, too, now belongs to the other instance.
  if (failure.code === 'directory.taken') return;
  const nothing = { summary: null, selection: null, isWhole: false, problems: [] };
  await rememberPass(context, { trigger, startedAtMs, failure, ...nothing }, null);
}

async function rememberPass(
  context: PassContext,
  pass: Omit<StoredPass, 'listedAtMs' | 'finishedAtMs' | 'publishesWhole'>,
  kept: KeptTargets | null,
): Promise<void> {
  const whole = publishesWhole(context.store);
  await context.state.savePass({ ...pass, publishesWhole: whole, finishedAtMs: context.now() }, kept);
}
