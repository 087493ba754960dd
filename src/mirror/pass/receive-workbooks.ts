import { join } from 'node:path';

import { byCodeUnits, type Manifest, type ManifestFile } from '../store/manifest.ts';
import { changesByPath, groupRows, targetDigest, type WorkbookChanges } from '../plan/workbooks.ts';
import { FileDestination } from '../upstream/download.ts';
import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { dropFile, emptyStage, keptTime, makeParents, setTime, type Stage } from '../store/publish/stage.ts';
import type { PublishedState, Reception } from './context.ts';
import type { Received } from './receive.ts';
import { timeOf, timeOfNewBytes } from './unpack.ts';
import type { PassService } from '../upstream/client.ts';
import type { Repository, WorkbookRow } from '../upstream/listing.ts';

const FILES_AT_ONCE = 4;

/**
 * The new state from what is published and the workbooks that changed, each by its path, if together they are one state that the
 * service had: a list that is read after the last workbook shows the same versions.
 * @returns null where the whole contents are needed
 */
export async function receiveWorkbooks(
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
    // The error of one workbook says nothing about the whole contents.
    signal.throwIfAborted();
    if (!(error instanceof MirrorError) || CONCERNS_ALL.test(error.code)) throw error;
  }
  await emptyStage(stage);
  return null;
}

/** Failures that the whole contents would meet as well: nothing is asked for twice. */
const CONCERNS_ALL =
  /^(?:credentials|pass|disk|directory|system|internal)\.|^service\.(?:unreachable|busy|timeout)$|^contents\.forbidden$/;

/** The new files, where all changes were received and are of one state. */
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
  // A file that still has the bytes before may be older than the files that changed with it: only the whole contents are of one time.
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

/** The published state with the files that were received, and without those that are gone. */
function stateWith(previous: Manifest, received: readonly ManifestFile[], gone: readonly string[]): Received {
  const replaced = new Set([...received.map(({ path }) => path), ...gone]);
  const others = previous.files.filter(({ path }) => !replaced.has(path));
  const { skipped, archiveBytes, comparedAtMs, verifiedAtMs } = previous;
  return {
    kind: 'received',
    files: [...others, ...received].sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped,
    rewritten: [],
    isThorough: false,
    etag: null,
    archiveBytes,
    downloadedBytes: received.reduce((sum, file) => sum + file.sizeBytes, 0),
    isWhole: false,
    comparedAtMs: comparedAtMs ?? verifiedAtMs,
    // Files that a cache gave are taken only where their digests prove them.
    cached: null,
  };
}

/** The rows of a repository in a list that is read now; null where that list is not whole, and so proves nothing. */
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

/**
 * Whether the service has no files at some paths. Only where it has one at another path does that say something about these: it may
 * not know the repository in this form.
 * @param left a path that must be there
 */
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

/** @returns null where its version has no time, or other bytes came than the list announces */
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
    expected: {
      ...(row.sizeBytes === undefined ? {} : { sizeBytes: row.sizeBytes }),
      ...(row.sha256 === undefined ? {} : { sha256: row.sha256 }),
    },
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
