import { isDeepStrictEqual } from 'node:util';
import { lastLease, leasesInForce } from '../store/leases/lease.ts';
import { showStage } from '../store/publish/stage-links.ts';
import { examinePublished } from '../store/verify/examine.ts';
import { summariseDrift } from '../store/verify/drift.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { PassEvent, TargetPulled } from './events.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { aboutTree } from '../plan/record.ts';
import { type Cached, cacheName } from '../upstream/listing.ts';
import { type HeldDeletion, heldFiles, isApproved } from '../plan/guard.ts';
import type { Manifest } from '../store/manifest.ts';
import { PULL_REASONS } from '../plan/actions.ts';
import { findContradictions, missingSentence, nextDoubt, rowsInBoth } from '../plan/contradictions.ts';
import { type NewState, ContradictedError, failed, heldByLease, type Pull } from './execution.ts';
import { type EndedResult } from './results.ts';
import { notFound, type Received, receiveWhole } from './receive.ts';
import { type Changes, changesSince, needsPublishing, newManifest, rowsAbout } from './new-manifest.ts';
import { reportCached } from './reports.ts';
import { tolerateStateFailure } from './record.ts';
import { lookAtPublished, type PublishedState } from './published-state.ts';
import { discardStage, type Stage, stageOn } from '../store/publish/stage.ts';
import { publishStage, type Repair } from '../store/publish/publish.ts';
import { receiveWorkbooks, rowsNow } from './receive-workbooks.ts';

/** The end of a pull: its result, and the events about it. */
export interface Pulled {
  readonly result: EndedResult;
  /** Events to emit once the result is recorded. */
  readonly news: readonly PassEvent[];
}

/** Pulls a target, unless a lease holds. @throws MirrorError what ends the whole pass; what is published is as it was */
export async function pullTarget(pull: Pull): Promise<Pulled> {
  const { context, action, signal } = pull;
  try {
    signal.throwIfAborted();
    // A lease would keep the new state from being published: it is not downloaded.
    const lease = PULL_REASONS[action.reason].mayChangeNothing
      ? null
      : lastLease(await leasesInForce(context.store.layout, context.now()));
    if (lease !== null) return { result: heldByLease(context, action, lease), news: [] };
    context.emit({ name: 'target.started', target: action.path, reason: action.reason });
    return await pullContents(pull);
  } catch (error) {
    return { result: failed(pull, action, error), news: [] };
  }
}

/** Downloads what may have changed of a target's contents, compares it with what is published, and publishes what differs. */
async function pullContents(pull: Pull): Promise<Pulled> {
  const { context, action, policy, meter } = pull;
  const startedAtMs = context.now();
  const before = await lookAtPublished(pull);
  const stage = await stageOn(context.store, action.path);
  try {
    const received =
      (await receiveWorkbooks(pull, stage, before)) ?? (await receiveWhole(pull, stage, before));
    if (received.kind === 'not-found') return { result: await notFound(pull, received.isCertain), news: [] };
    const changes = changesSince(before.manifest, received.files);
    if (received.cached !== null) {
      reportCached(context, 'cached contents', received.cached);
      refuseOlder(pull, received.cached, changes);
    }
    const rows = await agreedRows(pull, received, changes);
    meter.publishes();
    const manifest = newManifest({ ...pull, rows }, received, changes, context.now());
    const held = heldFiles(before.manifest?.files ?? [], manifest.files, changes, policy.guard.files);
    if (held !== null && !isApproved(pull.approvals, action.target, held))
      return { result: guarded(pull, held, received.downloadedBytes), news: [] };
    if (held !== null) context.emit({ name: 'deletion.approved', target: action.path, subject: 'files' });
    const { rewritten } = received;
    const repair = { rewritten, isDamaged: before.isDamaged, isApprovedDeletion: held !== null };
    const method = await publishChanges(pull, stage, manifest, changes, repair);
    return await pulled(pull, { before, received, changes, manifest, method, startedAtMs });
  } finally {
    await discardStage(context.store, stage);
  }
}

/**
 * The rows of the list that agree with received contents, or that are not believed; null where there is no list of workbooks.
 * @throws ContradictedError where the list speaks against publishing these contents
 */
async function agreedRows(pull: Pull, received: Received, changes: Changes): Promise<Pull['rows']> {
  const { context, action, record } = pull;
  const { branch } = action.target;
  const { previous } = changes;
  const rows = rowsAbout(pull, received, changes) ?? [];
  const found = findContradictions(rows, branch, previous, received);
  if (found.length === 0) return pull.rows;
  // A workbook that changed between the first list and the contents contradicts the first list alone.
  const later = (await rowsNow(context.service, pull.repository, pull.signal)) ?? rows;
  const still = new Set(findContradictions(later, branch, previous, received).map(({ path }) => path));
  const contradictions = found.filter(({ path }) => still.has(path));
  const doubt = nextDoubt(record.doubt, contradictions, context.now());
  if (doubt !== null) throw new ContradictedError(contradictions, doubt);
  return rowsInBoth(rows, branch, later);
}

/** Refuses other contents of a time before the tree was found to be right: they would bring an old state back. */
function refuseOlder({ record }: Pull, cached: Cached, { previous, isSameTree }: Changes): void {
  if (previous === null || isSameTree) return;
  const knownAtMs = aboutTree(record, previous.publishedAtMs).verifiedAtMs ?? previous.verifiedAtMs;
  if (cached.asOfMs >= knownAtMs) return;
  throw new MirrorError(
    'contents.contradicted',
    `${cacheName(cached)} gave contents from before ${utcTime(knownAtMs)}, when the mirror was found to be right.`,
    { hint: 'What is mirrored stays as it is. Let that cache keep nothing of the service.' },
  );
}

/** Too many files would be deleted: nothing is published. */
function guarded({ action }: Pull, held: HeldDeletion, downloadedBytes: number): EndedResult {
  const outcome = { kind: 'guarded', held, fingerprint: action.fingerprint } as const;
  return { action, outcome, downloadedBytes, changedFiles: 0 };
}

/** The most files of a tree that is published without a place. */
const MOST_FILES_WITHOUT_PLACE = 1000;

/** Publishes what differs from what is there, if anything does and nobody refuses it. @returns how */
async function publishChanges(
  pull: Pull,
  stage: Stage,
  manifest: Manifest,
  { previous, isSameTree }: Changes,
  repair: Repair,
): Promise<string> {
  const { context, action, turn, signal } = pull;
  const { path } = action;
  if (!repair.isDamaged && !needsPublishing(manifest, previous, context.now())) return 'none';
  const isNew = !isSameTree;
  const state = { target: path, manifest, previous };
  if (isNew) await askBefore(pull, stage, state);
  // A large tree keeps its place: its publish takes longer than the flushes, and its manifests take memory.
  if (manifest.files.length <= MOST_FILES_WITHOUT_PLACE) await turn.toPublish(signal);
  const { method } = await publishStage(context.store, stage, path, manifest, repair, signal);
  if (isNew) context.onPublished(state);
  return method;
}

/** Passes a new state to `beforePublish`, which may refuse it. A tree that it changed is put right by the next pass. */
async function askBefore(
  { context: { beforePublish, store, state: memory, emit, now }, action, signal }: Pull,
  stage: Stage,
  state: NewState,
): Promise<void> {
  if (beforePublish === null) return;
  const refusals: unknown[] = [];
  // A command that refuses a state may still have changed its files.
  const look = (folder: string): Promise<void> =>
    beforePublish({ ...state, folder }, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      refusals.push(error);
    });
  const isAsItWas = await showStage(store, stage, state.manifest, look, signal);
  if (!isAsItWas && state.previous !== null) {
    const { target, previous } = state;
    const options = { depth: 'facts', signal } as const;
    const differences = await examinePublished(store.layout, target, previous.files, options);
    if (differences.length > 0) {
      const summary = summariseDrift(differences);
      const note = { ...summary, sinceMs: now(), needsRepair: true };
      await tolerateStateFailure(() => memory.saveDrift(action.target, target, note), undefined);
      emit({ name: 'target.drifted', target, ...summary });
    }
  }
  if (refusals.length > 0) throw refusals[0];
  if (isAsItWas) return;
  throw new MirrorError('hook.failed', 'The command hooks.beforePublish changed what it was to look at.', {
    hint: 'It may only read: unchanged files are the published ones. Nothing new was published.',
  });
}

/** The result and the events for contents that were compared and, where they differed, published. */
async function pulled(
  { context, action }: Pull,
  done: {
    readonly before: PublishedState;
    readonly received: Received;
    readonly changes: Changes;
    readonly manifest: Manifest;
    readonly method: string;
    readonly startedAtMs: number;
  },
): Promise<Pulled> {
  const { before, changes, manifest, method } = done;
  const { rewritten, downloadedBytes, isWhole, cached } = done.received;
  const target = action.path;
  const facts: TargetPulled = {
    target,
    reason: action.reason,
    method,
    downloadedBytes,
    files: manifest.files.length,
    added: changes.added.length,
    changed: changes.changed.length + rewritten.length,
    removed: changes.removed.length,
    durationMs: context.now() - done.startedAtMs,
  };
  const count = facts.added + facts.changed + facts.removed;
  const news: PassEvent[] = [];
  const { skipped, publishedAtMs } = manifest;
  const [first] = skipped;
  if (first !== undefined && count > 0)
    news.push({ name: 'target.skipped_entries', target, count: skipped.length, first: first.path });
  const { missing = [] } = manifest;
  if (missing.length > 0 && !isDeepStrictEqual(missing, before.manifest?.missing))
    news.push({ name: 'listing.problem', problem: `${target}: ${missingSentence(missing)}` });
  news.push({ name: 'target.pulled', ...facts });
  const isExamined = isWhole && (before.manifest === null || action.depth === 'bytes');
  const tree = method === 'none' ? null : await context.store.inventory.note(target, manifest);
  const outcome = {
    kind: 'pulled',
    changedFiles: count,
    publishedAtMs,
    tree,
    isExamined,
    isWhole,
    ...(cached === null ? {} : { asOfMs: cached.asOfMs }),
  } as const;
  return { result: { action, outcome, downloadedBytes, changedFiles: count }, news };
}
