import { diskError } from '../../lib/errors/disk-errors.ts';
import { type ErrorCode, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { type Action, type EndedResult, holdOf, type PullReason, resultOf } from '../plan/actions.ts';
import {
  ContradictedError,
  findContradictions,
  hasUnproven,
  listedContents,
  type ListedContents,
  nextDoubt,
  rowsInBoth,
} from '../plan/contradictions.ts';
import { heldFiles, approvalOf } from '../plan/guard.ts';
import type { Manifest } from '../store/manifest.ts';
import { aboutTree, type Doubt } from '../plan/record.ts';
import { type Lease, LeasedError, refuseLeased } from '../store/leases.ts';
import { discardStage } from '../store/publish/journal.ts';
import { type NextState, publishStage } from '../store/publish/publish.ts';
import { showStage, type Stage, openStage } from '../store/publish/stage.ts';
import { examineWithManifest, foreignIn, trustOf } from '../store/verify/examine.ts';
import { type Cached, cacheName } from '../upstream/answers.ts';
import type { NewState, PassContext, PublishedState, Pull, Reception } from './context.ts';
import {
  borrowsOwn,
  type Changes,
  changesSince,
  mayHideChanges,
  needsPublishing,
  newManifest,
  rowsAbout,
} from './new-manifest.ts';
import { receive, rowsNow } from './receive.ts';
import { type Pulled, pulled, reportCached } from './reports.ts';
import type { Received } from './unpack.ts';

/** Pull reasons that justify a download while a lease forbids publishing: the pull may find nothing new. */
const MAY_FIND_NOTHING: ReadonlySet<PullReason> = new Set(['confirm-gone', 'no-version-list', 'full-check']);

/** Pulls a target, unless a lease holds. @throws MirrorError for errors that end the whole pass; the published tree is unchanged */
export async function pullTarget(pull: Pull): Promise<Pulled> {
  const { context, action, signal } = pull;
  try {
    signal.throwIfAborted();
    if (!MAY_FIND_NOTHING.has(action.reason)) await refuseLeased(context.store.layout, context.now());
    context.emit({ name: 'target.started', target: action.path, reason: action.reason });
    return await pullContents(pull);
  } catch (error) {
    return resultOfFailure(context, action, error, signal);
  }
}

/** An action that waits for the end of a lease. It proves nothing about the target and does not count as a failure. */
function heldByLease(
  { reported, emit }: Pick<PassContext, 'reported' | 'emit'>,
  action: Action,
  { id, untilMs, holder }: Lease,
): EndedResult {
  if (reported.news('lease', [id]).length > 0) emit({ name: 'lease.waited', untilMs, holder });
  return resultOf(holdOf(action, 'lease', { untilMs }), { kind: 'held' });
}

/** Codes of errors that every other target would meet as well. */
const ENDS_PASS: ReadonlySet<ErrorCode> = new Set([
  'credentials.refused',
  'directory.taken',
  'program.replaced',
]);

/** The result of an action that failed. @throws MirrorError for errors that end the whole pass */
export function resultOfFailure(
  reports: Pick<PassContext, 'reported' | 'emit'>,
  action: Action,
  thrown: unknown,
  signal: AbortSignal,
): EndedResult {
  const error = toMirrorError(diskError(thrown, `mirroring ${action.path}`));
  if (signal.aborted) throw new MirrorError('pass.abandoned', 'The pass was abandoned.', { cause: thrown });
  if (ENDS_PASS.has(error.code)) throw error;
  if (error instanceof LeasedError) return heldByLease(reports, action, error.lease);
  return resultOf(action, { kind: 'failed', error });
}

/** Downloads the contents of a target that may have changed, compares them with the published ones, and publishes the difference. */
async function pullContents(pull: Pull): Promise<Pulled> {
  const { context, action, guard, meter } = pull;
  const beganMs = performance.now();
  const stage = await openStage(context.store, action.path);
  try {
    const before = await lookAtPublished(pull);
    const received = await receive(pull, stage, before);
    if (received === null)
      return resultOf(action, { kind: action.whenAbsent === 'accept' ? 'absent' : 'missing' });
    const { downloadedBytes, rewritten, cached } = received;
    const changes = changesSince(before.manifest, received.files);
    if (cached !== null) {
      reportCached(context, 'cached contents', cached);
      refuseOlder(pull, cached, changes);
    }
    const listed = await agreedList(pull, received, changes, pull.record.doubt, context.now);
    meter.begins('publishing');
    const known = newManifest(pull, received, changes, listed, context.now());
    // If a workbook changed after the first list, or its row is unreadable, later lists may lack it: only the contents show whether it stays.
    const isRead = listed !== null && listed.rows === pull.rows && !pull.isUnread;
    const isShown = isRead && !mayHideChanges(listed, known, pull.typesOfOthers);
    const isFinal = isShown && !borrowsOwn(known, before.manifest);
    const manifest = isFinal ? known : { ...known, fingerprint: null };
    const held = heldFiles(before.manifest?.files ?? [], manifest.files, changes, guard.files);
    const approval = held && approvalOf(pull.approvals, action.target, held);
    if (held !== null && approval === null) {
      return { action, outcome: { kind: 'guarded', held }, downloadedBytes, changedFiles: 0 };
    }
    if (held !== null) context.emit({ name: 'deletion.approved', target: action.path, subject: 'files' });
    const { isDamaged, foreign } = before;
    const repair = { rewritten, isDamaged, foreign, approval };
    const next = { manifest, before: before.manifest, ...repair };
    const end = await publishChanges(pull, stage, next, changes);
    return await pulled(pull, received, changes, end.manifest, end.method, beganMs);
  } finally {
    await discardStage(context.store, stage);
  }
}

/** Compares the tree in a target's place with its manifest: the plan may not know it. @throws MirrorError `disk.*` */
async function lookAtPublished(pull: Pull): Promise<PublishedState> {
  const { action, signal, onProgress: onBytes } = pull;
  const { path, target, depth } = action;
  const { layout } = pull.context.store;
  const examined = await examineWithManifest(layout, path, { depth, signal, onBytes });
  const { manifest = null, differences = [] } = examined ?? {};
  if (manifest?.repository.id !== target.repositoryId || manifest.branch !== target.branch)
    return { manifest: null, isDamaged: false, foreign: [], isTrusted: () => false };
  const foreign = foreignIn(differences, manifest.files);
  return { manifest, isDamaged: differences.length > 0, foreign, isTrusted: trustOf(differences) };
}

/**
 * The list beside received contents that it describes, with all of its rows, or without those that contradict the contents and have done so
 * for too long to be believed. Null if no list describes them.
 * @param before the doubt before these contents; null for none
 * @throws ContradictedError if the list speaks against publishing these contents
 */
export async function agreedList(
  reception: Reception,
  received: Received,
  changes: Changes,
  before: Doubt | null,
  now: () => number,
): Promise<ListedContents | null> {
  const { hasAllRows } = reception;
  const { branch } = reception.action.target;
  const { previous } = changes;
  const rows = rowsAbout(reception, received, changes);
  if (rows === null) return null;
  const listed = listedContents(rows, hasAllRows, branch, received);
  const found = findContradictions(listed, previous, now());
  // A first mirror takes too long to read the list again for each target.
  const written = [...changes.added, ...changes.changed];
  const mayBeNewer = received.isWhole && previous !== null && hasUnproven(listed, written);
  if (found.length === 0 && !mayBeNewer) return listed;
  // A workbook that changed between the first list and the contents contradicts the first list alone.
  const later = await rowsNow(reception.context.service, reception.action.repository, reception.signal);
  const confirming = later === null ? listed : listedContents(later, true, branch, received);
  const still = new Set(findContradictions(confirming, previous, now()).map(({ path }) => path));
  const contradictions = found.filter(({ path }) => still.has(path));
  const doubt = nextDoubt(before, contradictions, now());
  if (doubt !== null) throw new ContradictedError(contradictions, doubt);
  const agreed = rowsInBoth(rows, branch, confirming.rows);
  return agreed === rows ? listed : listedContents(agreed, hasAllRows, branch, received);
}

/** Refuses differing contents that are older than the tree's last verification: they would restore an old state. */
function refuseOlder({ record }: Pull, cached: Cached, { previous, isSameTree }: Changes): void {
  if (previous === null || isSameTree) return;
  const knownAtMs = aboutTree(record, previous.publishedAtMs).verifiedAtMs ?? previous.verifiedAtMs;
  if (cached.asOfMs >= knownAtMs) return;
  throw new MirrorError(
    'contents.contradicted',
    `${cacheName(cached)} gave contents older than the last verification at ${utcTime(knownAtMs)}.`,
    { hint: 'The published tree stays. Exempt the service from that cache.' },
  );
}

/** The most files of a tree that may be published without keeping its slot. */
const MOST_FILES_WITHOUT_SLOT = 1000;

/** Publishes the difference, if there is one and `beforePublish` does not refuse it. @returns how, and the manifest */
async function publishChanges(
  { context, action, record, toPublish, signal }: Pull,
  stage: Stage,
  next: NextState,
  changes: Changes,
): Promise<{ readonly method: string; readonly manifest: Manifest }> {
  const { manifest, isDamaged = false } = next;
  const { previous, isSameTree } = changes;
  // The absence of these workbooks is accepted as of now: their versions until now are no longer new.
  const isAccepted = manifest.missing !== undefined && record.doubt !== null;
  if (!isDamaged && !isAccepted && !needsPublishing(manifest, changes, context.now()))
    return { method: 'none', manifest };
  if (!isSameTree) await askBefore(context, stage, { target: action.path, manifest, previous }, signal);
  // A large tree keeps its slot: its publish takes longer than the flushes, and its manifests take memory.
  if (manifest.files.length <= MOST_FILES_WITHOUT_SLOT) await toPublish(signal);
  // No reader could open the new state before: the command may take minutes.
  const readable = isSameTree ? manifest : { ...manifest, publishedAtMs: context.now() };
  const method = await publishStage(context.store, stage, { ...next, manifest: readable }, signal);
  if (!isSameTree) context.onPublished({ target: action.path, manifest: readable, previous });
  return { method, manifest: readable };
}

/** Passes a new state to `beforePublish`, which may refuse it. If it changed the published tree, the next pull repairs that. */
async function askBefore(
  { beforePublish, store }: PassContext,
  stage: Stage,
  state: NewState,
  signal: AbortSignal,
): Promise<void> {
  if (beforePublish === null) return;
  const look = (folder: string): Promise<void> => beforePublish({ ...state, folder }, signal);
  if (await showStage(store, stage, state.manifest.files, look, signal)) return;
  throw new MirrorError('hook.failed', 'hooks.beforePublish changed the tree that it checked.', {
    hint: 'It may only read: unchanged files are the published ones. Nothing new was published.',
  });
}
