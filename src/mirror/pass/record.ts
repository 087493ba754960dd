import { publishedManifest } from '../store/inventory.ts';
import { removeApprovals } from '../store/documents.ts';
import {
  type Action,
  type ActionResult,
  type EndedResult,
  type HoldAction,
  holdRule,
} from '../plan/actions.ts';
import { PATHS_SHOWN, type Approval } from '../plan/guard.ts';
import { nextRecord } from '../plan/next-record.ts';
import {
  emptyRecord,
  type Held,
  queuedRecord,
  type Outcome,
  type TargetRecord,
  type RememberedTree,
} from '../plan/record.ts';
import { owns } from '../plan/selection.ts';
import { type Listing, targetKey } from '../upstream/listing.ts';
import type { PassContext, PlannedPass } from './context.ts';

/** Drops the records of targets that no longer exist: retired, or neither listed nor mirrored any longer. */
export async function forget(
  state: PassContext['state'],
  { repositories, repositoriesComplete }: Listing,
  { plan, records }: PlannedPass,
  retired: readonly ActionResult[],
): Promise<void> {
  if (!repositoriesComplete || repositories.length === 0) return;
  const left = new Set(
    retired.filter(({ outcome }) => outcome.kind === 'retired').map(({ action }) => action),
  );
  const alive = new Set(plan.filter((action) => !left.has(action)).map((action) => targetKey(action.target)));
  const gone = [...records.values()].filter((each) => !alive.has(targetKey(each.target)));
  await state.forgetRecords(gone);
}

/** Removes approvals that were used, or whose deletion no longer waits. */
export async function withdraw(
  { layout, lock, shard }: PassContext['store'],
  { approvals, isOtherService }: PlannedPass,
  results: readonly ActionResult[],
): Promise<void> {
  const resultOf = new Map(results.map((result) => [targetKey(result.action.target), result]));
  // An approved other service still has something to publish.
  const isToCome = isOtherService && !results.some(({ outcome }) => outcome.kind === 'pulled');
  const used = [...approvals].flatMap(([key, approval]) => {
    if (approval.subject === 'service') return isToCome ? [] : [approval];
    const result = resultOf.get(key);
    if (result !== undefined) return isStillToBeDone(approval, result) ? [] : [approval];
    // Other approvals belong to other instances; only this instance can retire its copy that has moved.
    return approval.subject === 'moved' || owns(shard, approval.target.repositoryId) ? [approval] : [];
  });
  if (used.length === 0) return;
  await lock.check();
  await removeApprovals(layout, used);
}

/** Outcomes that leave an approval valid: its target was not seen again, or its new state not published. */
const MEANT_LATER: ReadonlySet<string> = new Set(['guarded', 'missing', 'held', 'unfinished']);

/** Whether an approved deletion may still be meant. */
function isStillToBeDone({ subject }: Approval, { action, outcome }: ActionResult): boolean {
  if (subject === 'deselected') return action.deselection !== undefined;
  if (outcome.kind !== 'failed') return MEANT_LATER.has(outcome.kind);
  return subject === 'files' || action.kind === 'retire' || action.reason === 'confirm-gone';
}

/** As {@link recordEnds}, for actions of a plan. */
export function recordAll(
  context: PassContext,
  { takenAtMs }: Listing,
  { records, trees }: PlannedPass,
  results: readonly EndedResult[],
): Promise<void> {
  const ends = results.map((result) => {
    const { target, published, path } = result.action;
    const before = records.get(targetKey(target)) ?? emptyRecord(target);
    return { result, before, tree: trees.get(published?.path ?? path) ?? null };
  });
  return recordEnds(context, takenAtMs, ends);
}

/** Records unknown targets that will be pulled, so that `status` shows everything that the service lists. */
export async function recordQueued(
  { state, now }: PassContext,
  records: ReadonlyMap<string, TargetRecord>,
  pulls: readonly Action[],
): Promise<void> {
  const queued = pulls
    .filter(({ target, published }) => published === null && !records.has(targetKey(target)))
    .map(({ target, path }) => queuedRecord(target, path.slice(0, path.lastIndexOf('/')), now()));
  await state.saveRecords(queued);
}

/** The end of an action, and the record before it. */
interface ActionEnd {
  readonly result: EndedResult;
  readonly before: TargetRecord;
  /** The remembered summary of the published tree; null for none. */
  readonly tree: RememberedTree | null;
}

/** Records the outcomes of actions, and then reports them. @param listedAtMs when the listing behind the actions was taken */
export async function recordEnds(
  context: PassContext,
  listedAtMs: number,
  ends: readonly ActionEnd[],
): Promise<void> {
  const nowMs = context.now();
  const next: TargetRecord[] = [];
  for (const { result, before, tree } of ends) {
    const { action, outcome } = result;
    const after = nextRecord(before, { action, outcome, tree, listedAtMs, nowMs, random: Math.random() });
    next.push(await withFiles(context.store, action, after));
  }
  await context.state.saveRecords(next);
  // Reported after recording: a listener that reads the records must find there what the event says.
  for (const [index, after] of next.entries()) {
    const end = ends[index];
    if (end !== undefined) report(context, end.result.action, end.result.outcome, end.before, after);
  }
}

/** Adds to a record the first files of a held tree that would go as a whole, from its manifest. */
async function withFiles(
  store: PassContext['store'],
  action: Action,
  record: TargetRecord,
): Promise<TargetRecord> {
  const { held } = record;
  const isTree = held?.subject === 'target' || held?.subject === 'restored' || held?.subject === 'moved';
  if (!isTree || held.first.length > 0) return record;
  // A manifest that cannot be read now is read again by the next pass.
  const manifest = await publishedManifest(store.layout, action.published?.path ?? action.path).catch(
    () => null,
  );
  const first = manifest?.files.slice(0, PATHS_SHOWN).map(({ path }) => path) ?? [];
  return { ...record, held: { ...held, first } };
}

function report(
  context: PassContext,
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
  const isMoved = after.held?.subject === 'moved';
  if (after.held !== null && !isMoved && !isSameHeld(before.held, after.held)) {
    const { subject, deletions, of, digest, first } = after.held;
    context.emit({ name: 'deletion.held', target, subject, deletions, of, digest, first });
  }
  if (outcome.kind === 'missing')
    context.emit({ name: 'target.missing', target, passes: after.missingPasses });
  if (outcome.kind === 'absent' && before.absentSinceMs === null)
    context.emit({ name: 'target.absent', target });
  if (action.kind === 'hold' && (outcome.kind === 'held' || isMoved) && isNewHold(action, before))
    context.emit({ name: 'target.held', target, reason: action.reason, untilMs: action.untilMs });
}

/** Whether a hold differs from the last decision, and no other event reports it. */
function isNewHold({ reason }: HoldAction, { decisions: [last] }: TargetRecord): boolean {
  return holdRule(reason).isReportedElsewhere !== true && (last?.kind !== 'hold' || last.reason !== reason);
}

/** An unchanged deletion was reported when it was first held. */
function isSameHeld(before: Held | null, after: Held | null): boolean {
  return (
    before !== null &&
    before.subject === after?.subject &&
    before.digest === after.digest &&
    before.deletions === after.deletions
  );
}
