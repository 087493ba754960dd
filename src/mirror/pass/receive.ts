import { join } from 'node:path';
import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { ActionSubject } from '../plan/actions.ts';
import {
  changesByPath,
  type RepositoryRows,
  rowsByName,
  targetDigest,
  type WorkbookChanges,
} from '../plan/workbooks.ts';
import { byCodeUnits, type Manifest, type ManifestFile } from '../store/manifest.ts';
import { dropFile, emptyStage, keptTime, makeParents, setTime, type Stage } from '../store/publish/stage.ts';
import type { PassService } from '../upstream/client.ts';
import { FileDestination } from '../upstream/download.ts';
import { hasAllRows, HEAD_BRANCH, type Repository, type WorkbookRow } from '../upstream/listing.ts';
import type { PublishedState, Reception } from './context.ts';
import { isThere, type Received, receiveWhole, timeOf, timeOfNewBytes } from './unpack.ts';

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
    (await isReachable(context.service, action, reception.branches, signal));
  if (!isProof) throw notFoundError(action);
  return null;
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
  meter.begins('downloading');
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
  const { context, action, signal } = reception;
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
  const rows = await rowsNow(context.service, action.repository, signal);
  if (rows === null) return null;
  const digest = targetDigest(rows, action.target.branch, action.published?.borrowed);
  return digest === action.fingerprint ? received : null;
}

/** The published state with the received files, and without the deleted ones. */
function stateWith(previous: Manifest, received: readonly ManifestFile[], gone: readonly string[]): Received {
  const replaced = new Set([...received.map(({ path }) => path), ...gone]);
  const others = previous.files.filter(({ path }) => !replaced.has(path));
  const { skipped, archiveBytes } = previous;
  return {
    files: [...others, ...received].sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped,
    rewritten: [],
    isThorough: false,
    etag: null,
    archiveBytes,
    downloadedBytes: received.reduce((sum, file) => sum + file.sizeBytes, 0),
    isWhole: false,
    // Files that a cache gave are taken only where their digests prove them.
    cached: null,
  };
}

/**
 * The rows of a repository in a list that is read now, under whichever name it has now; null if that list lacks the repository or
 * is not whole, and so proves nothing.
 */
export async function rowsNow(
  service: Pick<PassService, 'pollAgain'>,
  { id }: Pick<Repository, 'id'>,
  signal: AbortSignal,
): Promise<RepositoryRows | null> {
  const listing = await service.pollAgain(signal);
  const repository = listing.repositories.find((each) => each.id === id);
  if (repository === undefined || listing.cached !== null || !hasAllRows(listing, repository)) return null;
  return rowsByName(listing.workbooks)(repository.fullName);
}

/** Whether the service has no files at some paths. Only the file at `remaining` proves that it knows the repository in this form. */
async function areGone(
  reception: Reception,
  gone: readonly string[],
  remaining: string | undefined,
): Promise<boolean> {
  if (remaining === undefined || !(await isThere(reception, remaining))) return false;
  const { context, action, signal } = reception;
  const { repository, target } = action;
  for (const path of gone) {
    // Only status 404 or 410 proves that the file is gone.
    const asked = { repository, branch: target.branch, path, signal };
    if ((await context.service.exists(asked)) !== false) return false;
  }
  return true;
}

/** @returns null if its version has no time, or if its bytes differ from the list */
async function receiveFile(
  { context: { service }, action, meter, signal }: Reception,
  stage: Stage,
  row: WorkbookRow,
  known: ManifestFile | undefined,
): Promise<ManifestFile | null> {
  const { path } = row;
  const versionTimeMs = timeOf(row);
  if (versionTimeMs === null) return null;
  await makeParents(stage, path);
  const destination = new FileDestination(join(stage.tree, path));
  let arrivedBytes = 0;
  const { kind } = await service.downloadFile({
    repository: action.repository,
    branch: action.target.branch,
    path,
    expected: row,
    destination,
    onArrived: (doneBytes) => {
      meter.arrivedMore(doneBytes - arrivedBytes);
      arrivedBytes = doneBytes;
    },
    signal,
  });
  if (kind !== 'file') return null;
  const { sizeBytes, sha256, crc32 } = destination;
  if (known?.sha256 === sha256 && known.sizeBytes === sizeBytes) {
    await dropFile(stage, path);
    return { ...known, crc32 };
  }
  stage.staged.add(path);
  const mtimeMs = timeOfNewBytes(keptTime(stage, versionTimeMs), sizeBytes, known);
  return { path, sizeBytes, sha256, mtimeMs, mode: await setTime(stage, path, mtimeMs), crc32 };
}

/** Failures that another branch may not meet. */
const CONCERNS_ONE = /^(?:service\.failed|(?:service|contents)\.wrong_kind)$/;

/** Whether other contents of a repository are found: only then does a missing branch prove something about the branch. */
export async function isReachable(
  service: Pick<PassService, 'exists'>,
  { target, repository }: ActionSubject,
  branches: readonly string[],
  signal: AbortSignal,
): Promise<boolean> {
  const others = branches.filter((branch) => branch !== target.branch);
  let failure: MirrorError | null = null;
  for (const branch of [HEAD_BRANCH, ...others]) {
    try {
      if (await service.exists({ repository, branch, path: '', signal })) return true;
    } catch (error) {
      // A service may fail for a repository without a default branch, which says nothing about the others.
      const isOfHead =
        branch === HEAD_BRANCH && error instanceof MirrorError && CONCERNS_ONE.test(error.code);
      if (!isOfHead) throw error;
      failure = error;
    }
  }
  if (failure !== null) throw failure;
  return false;
}

/** The error for a branch without contents that may still exist. */
export function notFoundError({ target, repository }: ActionSubject): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(target.branch)} of ${repository.fullName}.`,
    {
      hint: 'The published tree stays as it is. If the setting targets names this branch, check its spelling; if someone emptied the repository, `forget` moves its tree to the history; otherwise the service contradicts its own lists.',
    },
  );
}
