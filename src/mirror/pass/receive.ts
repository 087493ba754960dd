import { join } from 'node:path';
import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ArchiveReceiver } from '../archive/receiver.ts';
import type { KnownFile } from '../file-work/entry-file.ts';
import type { PullAction } from '../plan/actions.ts';
import { changesByPath, groupRows, targetDigest, type WorkbookChanges } from '../plan/workbooks.ts';
import { byCodeUnits, type Manifest, type ManifestFile } from '../store/manifest.ts';
import { STAGED } from '../store/publish/moves.ts';
import { dropFile, emptyStage, keptTime, makeParents, setTime, type Stage } from '../store/publish/stage.ts';
import type { PassService } from '../upstream/client.ts';
import type { ContentsAnswer } from '../upstream/contents.ts';
import { FileDestination } from '../upstream/download.ts';
import { type Cached, HEAD_BRANCH, type Repository, type WorkbookRow } from '../upstream/listing.ts';
import type { PublishedState, Reception, RepositoryFacts } from './context.ts';
import { knownFiles, timeOf, timeOfNewBytes, type Unpacked, unpack } from './unpack.ts';

/** The new state of a target, as staged or already published. */
export interface Received extends Unpacked {
  /** Strong entity tag of the whole contents; null if there is none. */
  readonly etag: string | null;
  readonly archiveBytes: number;
  readonly downloadedBytes: number;
  /** Whether the whole contents were compared, and not just the workbooks with new versions. */
  readonly isWhole: boolean;
  /** When the whole contents were last compared. Milliseconds since the epoch. */
  readonly comparedAtMs: number;
  /** Null if the service itself gave the contents, and no cache. */
  readonly cached: Cached | null;
}

type NotFound = Extract<ContentsAnswer, { kind: 'not-found' }>;

/**
 * Receives the new state of a target: the changed workbooks, each by its path, or the whole contents.
 * @returns null if the service has no contents of the target
 * @throws MirrorError `contents.not_found` if that does not prove that the target is gone
 */
export async function receive(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
): Promise<Received | null> {
  const received =
    (await receiveWorkbooks(reception, stage, before)) ?? (await receiveWhole(reception, stage, before));
  if (!('kind' in received)) return received;
  const { context, action, signal } = reception;
  if (action.whenAbsent === 'accept') return null;
  const isProof =
    action.whenAbsent === 'count-as-missing' &&
    received.isCertain &&
    (await isReachable(context.service, action, reception, signal));
  if (!isProof) throw notFoundError(action);
  return null;
}

/**
 * The new state from the whole contents or, if the service says that nothing changed, from the published tree. Files that equal
 * published ones are not written. If one of them is needed after all, for its time or path, all are downloaded again and written.
 */
async function receiveWhole(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
): Promise<Received | NotFound> {
  const received = await receiveContents(reception, stage, before, knownFiles(reception, before));
  if (received !== null) return received;
  await emptyStage(stage);
  const whole = await receiveContents(reception, stage, before, []);
  if (whole === null) throw new MirrorError('internal.defect', 'An unpacked file is not there.');
  return whole;
}

/**
 * Downloads the whole contents, if they may have changed, and unpacks them into the stage while they arrive.
 * @param known the files that may stay as they are published
 * @returns null if a needed file was not written
 */
async function receiveContents(
  reception: Reception,
  stage: Stage,
  before: PublishedState,
  known: readonly KnownFile[],
): Promise<Received | NotFound | null> {
  const { context, action, repository, listedAtMs, signal, meter } = reception;
  meter.downloads();
  const archive = new ArchiveReceiver({
    tree: stage.tree,
    keptPath: join(stage.folder, STAGED.archive),
    limits: context.archiveLimits,
    known,
  });
  try {
    const answer = await context.service.download({
      repository,
      branch: action.target.branch,
      etag: knownTag(reception, before),
      destination: archive,
      onArrived: (doneBytes, totalBytes) => meter.arrived(doneBytes, totalBytes),
      signal,
    });
    if (answer.kind === 'not-found') return answer;
    const whole = { isWhole: true, comparedAtMs: listedAtMs, cached: answer.cached } as const;
    if (answer.kind === 'unchanged') return { ...whole, ...asPublished(before) };
    const { etag, sizeBytes, hasFileTimes } = answer;
    meter.unpacks();
    const contents = await archive.finish(reception.onProgress, signal);
    const unpacked = await unpack(reception, contents, stage, before, hasFileTimes);
    return unpacked && { ...whole, ...unpacked, etag, archiveBytes: sizeBytes, downloadedBytes: sizeBytes };
  } finally {
    await archive.release();
  }
}

/** The entity tag under which the service may say that nothing changed; none if the pull must find out more than that. */
function knownTag(
  { action: { published, depth } }: Reception,
  { manifest, isDamaged }: PublishedState,
): string | null {
  if (published?.treePresent !== true || isDamaged || manifest === null) return null;
  return depth === 'bytes' && manifest.isThorough === false ? null : manifest.etag;
}

/** The new state if nothing changed. @throws MirrorError `contents.wrong_kind` if nothing is published */
function asPublished({
  manifest,
}: PublishedState): Unpacked & Pick<Received, 'etag' | 'archiveBytes' | 'downloadedBytes'> {
  if (manifest === null)
    throw new MirrorError(
      'contents.wrong_kind',
      'The service says "not modified" to an unconditional request.',
    );
  const { files, skipped, etag, archiveBytes, isThorough = true } = manifest;
  return { files, skipped, rewritten: [], isThorough, etag, archiveBytes, downloadedBytes: 0 };
}

const FILES_AT_ONCE = 4;

/**
 * The new state from the published tree and the changed workbooks, each by its path, if the result is one state that the
 * service had: a list that is read after the last workbook shows the same versions.
 * @returns null if the whole contents are needed
 */
async function receiveWorkbooks(
  reception: Reception,
  stage: Stage,
  { manifest: previous, isDamaged }: PublishedState,
): Promise<Received | null> {
  const { action, rows, meter, signal } = reception;
  if (previous === null || isDamaged) return null;
  const changes = changesByPath(action, previous, rows);
  if (changes === null) return null;
  meter.downloads();
  const known = new Map(previous.files.map((file) => [file.path, file]));
  try {
    const received = await receiveChanges(reception, stage, changes, known);
    if (received !== null) return stateWith(previous, received, changes.gone);
  } catch (error) {
    // The error of one workbook proves nothing about the whole contents.
    signal.throwIfAborted();
    if (!(error instanceof MirrorError) || CONCERNS_ALL.test(error.code)) throw error;
  }
  await emptyStage(stage);
  return null;
}

/** Failures that the whole contents would meet as well: nothing is asked for twice. */
const CONCERNS_ALL =
  /^(?:credentials|pass|disk|directory|system|internal)\.|^service\.(?:unreachable|busy|timeout)$|^contents\.forbidden$/;

/** The new files, if all changes were received and belong to one state. */
async function receiveChanges(
  reception: Reception,
  stage: Stage,
  { changed, gone }: WorkbookChanges,
  known: ReadonlyMap<string, ManifestFile>,
): Promise<readonly ManifestFile[] | null> {
  const { context, action, repository, signal } = reception;
  const received: ManifestFile[] = [];
  await forEachConcurrently(changed, FILES_AT_ONCE, async (row) => {
    const file = await receiveFile(reception, stage, row, known.get(row.path));
    if (file !== null) received.push(file);
  });
  if (received.length < changed.length) return null;
  // A file with the old bytes may be older than the files that changed with it: only the whole contents are from one time.
  const digests = new Map(received.map(({ path, sha256 }) => [path, sha256]));
  const hasOld = changed.some(
    ({ path, sha256 }) => sha256 === undefined && digests.get(path) === known.get(path)?.sha256,
  );
  if (hasOld && changed.length + gone.length > 1) return null;
  const left = [...digests.keys(), ...known.keys()].find((path) => !gone.includes(path));
  if (gone.length > 0 && !(await areGone(reception, gone, left))) return null;
  const rows = await rowsNow(context.service, repository, signal);
  if (rows === null) return null;
  const digest = targetDigest(groupRows(rows), action.target.branch, action.published?.borrowed);
  return digest === action.fingerprint ? received : null;
}

/** The published state with the received files, and without the deleted ones. */
function stateWith(previous: Manifest, received: readonly ManifestFile[], gone: readonly string[]): Received {
  const replaced = new Set([...received.map(({ path }) => path), ...gone]);
  const others = previous.files.filter(({ path }) => !replaced.has(path));
  const { skipped, archiveBytes, comparedAtMs } = previous;
  return {
    files: [...others, ...received].sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped,
    rewritten: [],
    isThorough: false,
    etag: null,
    archiveBytes,
    downloadedBytes: received.reduce((sum, file) => sum + file.sizeBytes, 0),
    isWhole: false,
    comparedAtMs,
    // Files that a cache gave are taken only where their digests prove them.
    cached: null,
  };
}

/** The rows of a repository in a list that is read now; null if that list is not whole, and so proves nothing. */
export async function rowsNow(
  service: Pick<PassService, 'pollAgain'>,
  { fullName }: Pick<Repository, 'fullName'>,
  signal: AbortSignal,
): Promise<readonly WorkbookRow[] | null> {
  const { workbooks, workbooksComplete, unread, cached } = await service.pollAgain(signal);
  const isUnread = unread.isAnywhere || unread.repositories.has(fullName);
  if (workbooks === null || !workbooksComplete || isUnread || cached !== null) return null;
  return workbooks.filter((row) => row.repository === fullName);
}

/** Whether the service has no files at some paths. Only the file at `left` proves that it knows the repository in this form. */
async function areGone(
  { context, action, repository, signal }: Reception,
  gone: readonly string[],
  left: string | undefined,
): Promise<boolean> {
  const { branch } = action.target;
  const isThere = (path: string): Promise<boolean> =>
    context.service.exists({ repository, branch, path, signal });
  if (left === undefined || !(await isThere(left))) return false;
  for (const path of gone) if (await isThere(path)) return false;
  return true;
}

/** @returns null if its version has no time, or if its bytes differ from the list */
async function receiveFile(
  { context: { service }, action, repository, meter, signal }: Reception,
  stage: Stage,
  row: WorkbookRow,
  known: ManifestFile | undefined,
): Promise<ManifestFile | null> {
  const { path } = row;
  const versionTimeMs = timeOf(row);
  if (versionTimeMs === null) return null;
  await makeParents(stage, path);
  let arrivedBytes = 0;
  const answer = await service.downloadFile({
    repository,
    branch: action.target.branch,
    path,
    expected: row,
    destination: new FileDestination(join(stage.tree, path)),
    onArrived: (doneBytes) => {
      meter.arrivedMore(doneBytes - arrivedBytes);
      arrivedBytes = doneBytes;
    },
    signal,
  });
  if (answer.kind !== 'file') return null;
  const { sizeBytes, sha256, crc32 } = answer;
  if (known?.sha256 === sha256 && known.sizeBytes === sizeBytes) {
    await dropFile(stage, path);
    return { ...known, crc32 };
  }
  stage.staged.add(path);
  const mtimeMs = timeOfNewBytes(keptTime(stage, versionTimeMs), sizeBytes, known);
  return { path, sizeBytes, sha256, mtimeMs, mode: await setTime(stage, path, mtimeMs), crc32 };
}

/** Whether other contents of a repository are found: only then does a missing branch prove something about the branch. */
export async function isReachable(
  service: Pick<PassService, 'exists'>,
  { target }: Pick<PullAction, 'target'>,
  { repository, branches }: Pick<RepositoryFacts, 'repository' | 'branches'>,
  signal: AbortSignal,
): Promise<boolean> {
  const others = branches.filter((branch) => branch !== target.branch);
  for (const branch of [HEAD_BRANCH, ...others]) {
    if (await service.exists({ repository, branch, path: '', signal })) return true;
  }
  return false;
}

/** The error for a branch without contents that may still exist. */
export function notFoundError({
  target,
  repository,
}: Pick<PullAction, 'target' | 'repository'>): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(target.branch)} of ${repository.fullName} (status 404).`,
    {
      hint: 'What is mirrored stays as it is. If the setting targets names this branch, check its spelling; otherwise the service contradicts its own lists.',
    },
  );
}
