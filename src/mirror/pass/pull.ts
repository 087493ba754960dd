import { changedFiles } from '../plan/changed-files.ts';
import { type Difference, summariseDrift, trustOf } from '../store/verify/drift.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { TargetPulled } from './events.ts';
import { fingerprintOfTree } from '../plan/fingerprint.ts';
import { type HeldDeletion, heldFiles, isApproved } from '../plan/guard.ts';
import { type Manifest, type ManifestFile, sameManifest, treeChanges } from '../store/manifest.ts';
import type { PullAction } from '../plan/actions.ts';
import type { RememberedTree } from '../plan/targets.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { StagedState } from './staged-state.ts';
import type { PassContext } from './context.ts';
import type { Stage } from '../store/publish/stage.ts';
import type { PublishedState, PullRequest } from './pull-request.ts';
import { type Received, receiveNewVersions, receiveWhole } from './receive.ts';

/** What a pull came to. */
export type Pulled =
  | {
      readonly kind: 'pulled';
      readonly facts: TargetPulled;
      readonly manifest: Manifest;
      /** What is to be remembered of the tree; null where nothing was published. */
      readonly tree: RememberedTree | null;
      /** Whether every byte of the tree was read or written. */
      readonly isExamined: boolean;
      /** Whether the whole contents were compared, and not just the workbooks with new versions. */
      readonly isWhole: boolean;
    }
  | { readonly kind: 'not-found'; readonly isCertain: boolean }
  /** Too many files would be deleted; nothing was published. */
  | { readonly kind: 'guarded'; readonly held: HeldDeletion; readonly downloadedBytes: number };

/**
 * Downloads what may have changed of a target's contents, compares it with what is published, and publishes what differs.
 * @throws MirrorError whatever went wrong; what is published is as it was
 */
export async function pullTarget(context: PassContext, request: PullRequest): Promise<Pulled> {
  const { action, signal } = request;
  const startedAtMs = context.now();
  const before = await lookAtPublished(context, action, signal);
  const stage = await context.store.stage(action.path);
  try {
    const received =
      (await receiveNewVersions(context, request, stage, before)) ??
      (await receiveWhole(context, request, stage, before));
    if (received.kind === 'not-found') return received;
    request.meter.publishes();
    const { rewritten, downloadedBytes, isWhole } = received;
    const manifest = manifestOf(request, received, before.manifest, context.now());
    const held = heldFiles(before.manifest?.files ?? [], manifest.files, request.guard);
    if (held !== null) {
      const { paths, ...deletion } = held;
      if (!isApproved(request.approvals, action.target, held)) {
        await context.store.noteHeldFiles(action.target, paths);
        return { kind: 'guarded', held: deletion, downloadedBytes };
      }
      context.emit({ name: 'deletion.approved', target: action.path, subject: 'files' });
    }
    const repair = { rewritten, isDamaged: before.isDamaged, isApprovedDeletion: held !== null };
    const method = await publishChanges(context, request, stage, manifest, before.manifest, repair);
    const changes = treeChanges(before.manifest?.files ?? [], manifest.files);
    const facts: TargetPulled = {
      target: action.path,
      reason: action.reason,
      method,
      downloadedBytes,
      files: manifest.files.length,
      added: changes.added.length,
      changed: changes.changed.length + rewritten.length,
      removed: changes.removed.length,
      durationMs: context.now() - startedAtMs,
    };
    const isExamined = isWhole && (before.manifest === null || action.depth === 'bytes');
    const tree = method === 'none' ? null : await context.store.treeToRemember(action.path, manifest);
    return { kind: 'pulled', facts, manifest, tree, isExamined, isWhole };
  } finally {
    await stage.discard();
  }
}

async function lookAtPublished(
  context: PassContext,
  { path, target, depth }: PullAction,
  signal: AbortSignal,
): Promise<PublishedState> {
  const { store } = context;
  // The plan may not have known of it: what counts is what stands there now.
  const manifest = await store.manifest(path);
  const isOurs = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
  if (!isOurs) return { manifest: null, isDamaged: false, isTrusted: () => false };
  const differences = await store.examine(path, manifest, depth, signal);
  await noteSharers(context, path, differences ?? []);
  if (differences === null) return { manifest, isDamaged: true, isTrusted: () => false };
  return { manifest, isDamaged: differences.length > 0, isTrusted: trustOf(differences) };
}

/** What was done to a file that other targets have in common with this one was done to theirs: they are put right, too. */
async function noteSharers(
  { store, emit }: PassContext,
  path: string,
  differences: readonly Difference[],
): Promise<void> {
  if (differences.length === 0) return;
  for (const target of await store.sharersOf(path, differences)) {
    if (store.drifted.has(target)) continue;
    store.drifted.add(target);
    const { modified, first } = summariseDrift(differences);
    emit({ name: 'target.drifted', target, added: 0, missing: 0, modified, first });
  }
}

/** Publishes what differs from what is there, if anything does and nobody refuses it. @returns how */
async function publishChanges(
  context: PassContext,
  { action: { path }, signal }: PullRequest,
  stage: Stage,
  manifest: Manifest,
  previous: Manifest | null,
  repair: Parameters<PassContext['store']['publish']>[3],
): Promise<string> {
  if (!repair.isDamaged && !needsPublishing(manifest, previous)) return 'none';
  const isNew = previous === null || !isSameTree(previous, manifest);
  if (isNew) await askBefore(context, stage, { target: path, manifest, previous }, signal);
  const { method } = await context.store.publish(stage, path, manifest, repair, signal);
  if (isNew) {
    const changes = changedFiles(previous?.files ?? [], manifest.files);
    context.onPublished(path, {
      since: previous?.publishedAtMs ?? null,
      until: manifest.publishedAtMs,
      changes,
    });
  }
  return method;
}

/** Has a new state looked at by whoever may refuse it. A tree that was changed in doing so is put right by the next pass. */
async function askBefore(
  context: PassContext,
  stage: Stage,
  state: Omit<StagedState, 'folder'>,
  signal: AbortSignal,
): Promise<void> {
  const { beforePublish, store } = context;
  if (beforePublish === null) return;
  const refusals: unknown[] = [];
  // Who refuses a state may have changed it all the same.
  const look = (folder: string): Promise<void> =>
    beforePublish({ ...state, folder }, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      refusals.push(error);
    });
  const isAsItWas = await store.show(stage, state.manifest, look, signal);
  if (!isAsItWas) await noteDamage(context, state, signal);
  if (refusals.length > 0) throw refusals[0];
  if (isAsItWas) return;
  throw new MirrorError('hook.failed', 'The command hooks.beforePublish changed what it was to look at.', {
    hint: 'It may only read: unchanged files are the published ones. Nothing new was published.',
  });
}

/** Says of a published tree that was changed through a view of it that it is to be put right. */
async function noteDamage(
  { store, emit }: PassContext,
  { target, previous }: Omit<StagedState, 'folder'>,
  signal: AbortSignal,
): Promise<void> {
  if (previous === null) return;
  const differences = (await store.examine(target, previous, 'facts', signal)) ?? [];
  if (differences.length === 0) return;
  store.drifted.add(target);
  emit({ name: 'target.drifted', target, ...summariseDrift(differences) });
}

function manifestOf(
  request: PullRequest,
  received: Received,
  previous: Manifest | null,
  nowMs: number,
): Manifest {
  const { action, repository, rows, listing } = request;
  const { branch } = action.target;
  const { etag, archiveBytes, comparedAtMs, skipped, isThorough } = received;
  const paths = new Set(received.files.map((file) => file.path));
  const fingerprint = rows === null ? null : fingerprintOfTree(rows, branch, (path) => paths.has(path));
  const { id, name, fullName, url, createdAt } = repository;
  return {
    repository: { id, name, fullName, url, createdAt },
    branch,
    verifiedAtMs: listing.takenAtMs,
    comparedAtMs,
    publishedAtMs: previous !== null && isSameTree(previous, received) ? previous.publishedAtMs : nowMs,
    restoredAtMs: null,
    fingerprint: fingerprint?.digest ?? null,
    borrowed: fingerprint?.borrowed ?? [],
    settled: action.settled,
    etag,
    ...(isThorough || isVouchedFor(etag, previous) ? {} : { isThorough }),
    archiveBytes,
    skipped,
    files: withVersions(received.files, rows ?? [], branch),
  };
}

/** Whether there is no tag that could vouch for contents, or one under which every byte was compared before. */
function isVouchedFor(etag: string | null, previous: Manifest | null): boolean {
  return etag === null || (previous?.etag === etag && previous.isThorough !== false);
}

/** The files with the versions of the workbooks among them, as listed now. */
function withVersions(
  files: readonly ManifestFile[],
  rows: readonly WorkbookRow[],
  branch: string,
): ManifestFile[] {
  const own = new Map(rows.filter((row) => row.branch === branch).map((row) => [row.path, row]));
  return files.map(({ workbook: _workbook, ...file }) => {
    const row = own.get(file.path);
    if (row === undefined) return file;
    const { id, versionId, author, message, createdAt, action, parentId } = row;
    const change = {
      ...(action === undefined ? {} : { action }),
      ...(parentId === undefined ? {} : { parentId }),
    };
    return { ...file, workbook: { id, versionId, author, message, createdAt, ...change } };
  });
}

function isSameTree(previous: Manifest, next: Pick<Manifest, 'files'>): boolean {
  const { added, changed, removed } = treeChanges(previous.files, next.files);
  return added.length + changed.length + removed.length === 0;
}

/** Whether anything but the times of verification differs. */
function needsPublishing(manifest: Manifest, previous: Manifest | null): boolean {
  if (previous === null) return true;
  const facts = (of: Manifest): Manifest => ({
    ...of,
    verifiedAtMs: 0,
    comparedAtMs: 0,
    archiveBytes: 0,
  });
  return !sameManifest(facts(manifest), facts(previous));
}
