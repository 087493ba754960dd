import { publishedManifest } from '../store/inventory.ts';
import { removeApprovals } from '../store/documents.ts';
import type { Action, ActionResult, EndedResult } from '../plan/actions.ts';
import { PATHS_SHOWN, type Approval } from '../plan/guard.ts';
import { nextRecord } from '../plan/next-record.ts';
import { parentPath } from '../plan/paths.ts';
import { emptyRecord, queuedRecord, type TargetRecord } from '../plan/record.ts';
import { owns } from '../plan/selection.ts';
import { targetKey } from '../upstream/listing.ts';
import type { PassContext, PlannedPass, Pull, RunningPass } from './context.ts';
import { newsOfEnd, type Pulled } from './reports.ts';

/**
 * Drops the records of targets that no longer exist: retired, or neither listed nor mirrored any longer.
 * @param results one for each action of the plan
 */
export async function forget(
  { context, listing, records }: RunningPass,
  results: readonly ActionResult[],
): Promise<void> {
  const { repositories, repositoriesComplete } = listing;
  if (!repositoriesComplete || repositories.length === 0) return;
  const left = results.filter(({ outcome }) => outcome.kind !== 'retired');
  const alive = new Set(left.map(({ action }) => targetKey(action.target)));
  const gone = [...records.values()].filter((each) => !alive.has(targetKey(each.target)));
  await context.state.forgetRecords(gone);
}

/** Removes approvals that were used, or whose deletion no longer waits: every action of the plan must have a result. */
export async function withdraw(
  { context, approvals, isOtherService }: RunningPass,
  results: readonly ActionResult[],
): Promise<void> {
  const { layout, lock, shard } = context.store;
  const resultOf = new Map(results.map((result) => [targetKey(result.action.target), result]));
  // An approved other service still has something to publish.
  const isToCome = isOtherService && !results.some(({ outcome }) => outcome.kind === 'pulled');
  const over = [...approvals].flatMap(([key, approval]) => {
    if (approval.subject === 'service') return isToCome ? [] : [approval];
    const result = resultOf.get(key);
    if (result !== undefined) return isStillToBeDone(approval, result) ? [] : [approval];
    // Other approvals belong to other instances; only this instance can retire its copy that has moved.
    return approval.subject === 'moved' || owns(shard, approval.target.repositoryId) ? [approval] : [];
  });
  if (over.length === 0) return;
  await lock.check();
  await removeApprovals(layout, over);
}

/** Outcomes that leave an approval valid: its target was not seen again, or its new state not published. */
const MEANT_LATER: ReadonlySet<string> = new Set(['guarded', 'missing', 'held', 'unfinished']);

/** Whether an approved deletion may still be meant. */
function isStillToBeDone({ subject }: Approval, { action, outcome }: ActionResult): boolean {
  if (subject === 'deselected') return action.deselection !== undefined;
  if (outcome.kind !== 'failed') return MEANT_LATER.has(outcome.kind);
  return subject === 'files' || action.kind === 'retire' || action.reason === 'confirm-gone';
}

/** The record of an action's target, and the remembered summary of its published tree; null for none. */
export function rememberedOf(
  { records, trees }: PlannedPass,
  { target, published }: Action,
): Pick<ActionEnd, 'record' | 'tree'> {
  const record = records.get(targetKey(target)) ?? emptyRecord(target);
  return { record, tree: (published && trees.get(published.path)) ?? null };
}

/** As {@link recordEnds}, for actions of a plan. */
export function recordAll(pass: RunningPass, results: readonly EndedResult[]): Promise<void> {
  const ends = results.map((result) => ({ ...result, ...rememberedOf(pass, result.action) }));
  return recordEnds(pass.context, pass.listing.takenAtMs, ends);
}

/** Records unknown targets that will be pulled, so that `status` shows everything that the service lists. */
export async function recordQueued(
  { context, records }: RunningPass,
  pulls: readonly Action[],
): Promise<void> {
  const queued = pulls
    .filter(({ target, published }) => published === null && !records.has(targetKey(target)))
    .map(({ target, path }) => queuedRecord(target, parentPath(path), context.now()));
  await context.state.saveRecords(queued);
}

/** The end of an action, and what was remembered about its target before. */
type ActionEnd = Omit<Pulled, 'downloadedBytes' | 'changedFiles'> & Pick<Pull, 'record' | 'tree'>;

/** Records the outcomes of actions, and then reports them. @param listedAtMs when the listing behind the actions was taken */
export async function recordEnds(
  context: PassContext,
  listedAtMs: number,
  ends: readonly ActionEnd[],
): Promise<void> {
  const nowMs = context.now();
  const records: TargetRecord[] = [];
  for (const { record, ...end } of ends) {
    const step = { ...end, listedAtMs, nowMs, random: Math.random() };
    records.push(await withFiles(context.store, end.action, nextRecord(record, step)));
  }
  await context.state.saveRecords(records);
  // Reported after recording: a listener that reads the records must find there what the event says.
  for (const [index, { action, outcome, record, news = [] }] of ends.entries()) {
    const after = records[index] ?? record;
    for (const event of [...newsOfEnd(action, outcome, record, after), ...news]) context.emit(event);
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
