import { join } from 'node:path';

import { isWorkbookName } from '../../lib/api/media-types.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { isTimeFor, storableTimeMs, timeApartMs } from '../../lib/time/file-time.ts';
import { findLeadingFolder } from '../archive/policy.ts';
import { ArchiveReceiver } from '../archive/receiver.ts';
import type { UnpackedArchive, UnpackedEntry } from '../archive/unpack.ts';
import type { KnownFile } from '../file-work/entry-file.ts';
import { doInThread } from '../file-work/pool.ts';
import { isDeletion, rowsByFile } from '../plan/workbooks.ts';
import { byCodeUnits, type ManifestFile, type SkippedEntry } from '../store/manifest.ts';
import { STAGED } from '../store/publish/moves.ts';
import { emptyStage, keptTime, type Stage } from '../store/publish/stage.ts';
import type { ContentsAnswer } from '../upstream/contents.ts';
import type { Cached } from '../upstream/answers.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { PublishedState, Reception } from './context.ts';

/** The new state of a target: staged files where it differs from the published tree. */
export interface Received {
  /** Sorted by path; without their versions. */
  readonly files: readonly ManifestFile[];
  readonly skipped: readonly SkippedEntry[];
  /** Files whose bytes match the manifest although their published copy does not: someone changed it. */
  readonly rewritten: readonly string[];
  /** Whether every byte was compared or written. */
  readonly isThorough: boolean;
  /** Strong entity tag of the whole contents; null without one. */
  readonly etag: string | null;
  readonly archiveBytes: number;
  readonly downloadedBytes: number;
  /** Whether the whole contents were compared, and not just the workbooks with new versions. */
  readonly isWhole: boolean;
  /** Null if the service itself gave the contents, and no cache. */
  readonly cached: Cached | null;
}

type NotFound = Extract<ContentsAnswer, { kind: 'not-found' }>;

/**
 * The new state from the whole contents or, if the service says that nothing changed, from the published tree. Files that equal
 * published ones are not written. If one of them is needed after all, for its time or path, all are downloaded again and written.
 */
export async function receiveWhole(
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
  const { context, action, signal, meter } = reception;
  meter.begins('downloading');
  const { tree } = stage;
  const keptPath = join(stage.folder, STAGED.archive);
  const { archiveLimits: limits } = context;
  const archive = new ArchiveReceiver({ tree, keptPath, limits, known }, reception.onProgress);
  try {
    const answer = await context.service.download({
      repository: action.repository,
      branch: action.target.branch,
      etag: knownTag(reception, before),
      destination: archive,
      onArrived: (doneBytes, totalBytes) => meter.arrived(doneBytes, totalBytes),
      signal,
    });
    if (answer.kind === 'not-found') return answer;
    const whole = { isWhole: true, cached: answer.cached } as const;
    if (answer.kind === 'unchanged') return { ...whole, ...asPublished(before) };
    const { etag, sizeBytes, hasFileTimes } = answer;
    // Most or all of it was unpacked while it arrived.
    meter.begins('unpacking');
    const contents = await archive.finish(signal);
    const unpacked = await unpack(reception, contents, stage, before, hasFileTimes);
    if (unpacked === null) return null;
    const { isPlaced, ...state } = unpacked;
    const tag = isPlaced ? etag : null;
    return { ...whole, ...state, etag: tag, archiveBytes: sizeBytes, downloadedBytes: sizeBytes };
  } finally {
    await archive.release();
  }
}

/** The entity tag under which the service may say that nothing changed; none if the pull must find out more than that. */
function knownTag(
  { action: { published, depth }, isInDoubt }: Reception,
  { manifest, isDamaged }: PublishedState,
): string | null {
  if (published?.treePresent !== true || isDamaged || isInDoubt || manifest === null) return null;
  return depth === 'bytes' && manifest.isThorough === false ? null : manifest.etag;
}

interface Unpacked extends Pick<Received, 'files' | 'skipped' | 'rewritten' | 'isThorough'> {
  /** Whether the paths of its files are certain: otherwise "not modified" must not keep them. */
  readonly isPlaced: boolean;
}

/** The new state if nothing changed. @throws MirrorError `contents.wrong_kind` if nothing is published */
function asPublished({ manifest }: PublishedState): Omit<Received, 'isWhole' | 'cached'> {
  if (manifest === null)
    throw new MirrorError(
      'contents.wrong_kind',
      'The service says "not modified" to an unconditional request.',
    );
  const { files, skipped, etag, archiveBytes, isThorough = true } = manifest;
  return { files, skipped, rewritten: [], isThorough, etag, archiveBytes, downloadedBytes: 0 };
}

/**
 * The published files that may stay if an archive has the same. Equal size and CRC-32 prove that, except for workbooks with a
 * new version, or another digest in the list; a thorough pull compares every byte.
 */
function knownFiles(reception: Reception, before: PublishedState): readonly KnownFile[] {
  const files = before.manifest?.files.filter(({ path }) => before.isTrusted(path)) ?? [];
  const paths = new Set(files.map(({ path }) => path));
  const rows = rowsByFile(reception.rows, reception.action.target.branch, paths);
  return files.map((file) => {
    const { path, sizeBytes, sha256, crc32 = null } = file;
    const isProof = reception.action.depth !== 'bytes' && isUnchanged(file, rows.get(path)?.at(-1));
    return { path, sizeBytes, sha256, crc32: isProof ? crc32 : null };
  });
}

/** Whether the list does not show another version of a published file. */
function isUnchanged({ workbook, sha256 }: ManifestFile, row: WorkbookRow | undefined): boolean {
  const isNewVersion = row !== undefined && row.versionId !== workbook?.versionId;
  return !isNewVersion && (row?.sha256 ?? sha256) === sha256;
}

/**
 * Makes the new state of an archive that was unpacked into a stage: leaves out files whose published copy holds the same bytes.
 * @param hasFileTimes whether files take the archive's times even if their bytes did not change
 * @returns null if a needed file is not there
 * @throws MirrorError `contents.empty`, `disk.*`; the errors of asking for the leading folder
 */
async function unpack(
  reception: Reception,
  archive: UnpackedArchive,
  stage: Stage,
  before: PublishedState,
  hasFileTimes: boolean,
): Promise<Unpacked | null> {
  const published = new Map(before.manifest?.files.map((file) => [file.path, file]));
  const { strip, isPlaced } = await leadingFolder(reception, archive, published.keys());
  const entries = archive.entries.map((entry) => ({ ...entry, path: entry.path.slice(strip.length) }));
  const skipped = archive.skipped.map(({ path, reason }) => ({ path: path.slice(strip.length), reason }));
  const paths = new Set(entries.map(({ path }) => path));
  const rows = rowsByFile(reception.rows, reception.action.target.branch, paths);
  if (entries.length === 0) refuseEmpty([...rows.values()]);
  const outcomes: FileOutcome[] = [];
  for (const entry of entries) {
    const { path } = entry;
    const row = rows.get(path)?.at(-1);
    const facts = { row, previous: published.get(path), isTrusted: before.isTrusted(path) };
    const outcome = outcomeOf(entry, facts, { timeStepMs: stage.timeStepMs, hasFileTimes });
    if (outcome === null) return null;
    outcomes.push(outcome);
  }
  await placeAll(stage, archive, strip, outcomes);
  const files = outcomes.map(({ file }) => file).sort((a, b) => byCodeUnits(a.path, b.path));
  return {
    files,
    skipped,
    rewritten: outcomes.flatMap(({ file, kind }) => (kind === 'rewritten' ? [file.path] : [])),
    isThorough: entries.every(({ content }) => content.kind !== 'same' || content.by !== 'crc32'),
    isPlaced,
  };
}

/** @throws MirrorError `contents.empty` if workbooks are listed */
function refuseEmpty(workbooks: readonly (readonly WorkbookRow[])[]): void {
  const count = workbooks.filter((rows) => !rows.some(isDeletion)).length;
  if (count === 0) return;
  throw new MirrorError(
    'contents.empty',
    `The service gives an archive without files, although it lists ${count} workbooks there.`,
    { hint: 'Nothing was replaced.' },
  );
}

/** A file of the new tree. `rewritten`: its bytes are right, and the published bytes are not. */
interface FileOutcome {
  readonly kind: 'kept' | 'written' | 'rewritten';
  readonly file: ManifestFile;
}

/** Decides on a file of an archive. @returns null if a needed file is not there */
function outcomeOf(
  { path, content, sizeBytes, crc32, modifiedAtMs }: UnpackedEntry,
  facts: {
    readonly row: WorkbookRow | undefined;
    /** The published file at its path. */
    readonly previous: ManifestFile | undefined;
    readonly isTrusted: boolean;
  },
  rules: { readonly timeStepMs: number; readonly hasFileTimes: boolean },
): FileOutcome | null {
  const { row, previous, isTrusted } = facts;
  const { hasFileTimes } = rules;
  const ownTimeMs = keptTime(rules, hasFileTimes ? modifiedAtMs : (timeOf(row) ?? modifiedAtMs));
  const keepsTime = previous !== undefined && (!hasFileTimes || isTimeFor(ownTimeMs, previous.mtimeMs));
  const staying = keepsTime && isTrusted ? previous : undefined;
  if (content.kind === 'same') {
    const isRight = staying !== undefined && content.as === path;
    return isRight ? kept(staying, crc32) : null;
  }
  const { sha256, mode } = content;
  const file = { path, sizeBytes, sha256, mode, crc32 };
  if (previous?.sha256 !== sha256)
    return { kind: 'written', file: { ...file, mtimeMs: timeOfNewBytes(ownTimeMs, sizeBytes, previous) } };
  if (staying !== undefined) return kept(staying, crc32);
  const mtimeMs = keepsTime ? keptTime(rules, previous.mtimeMs) : ownTimeMs;
  return { kind: 'rewritten', file: { ...previous, ...file, mtimeMs } };
}

function kept(previous: ManifestFile, crc32: number): FileOutcome {
  return { kind: 'kept', file: previous.crc32 === crc32 ? previous : { ...previous, crc32 } };
}

/** Brings the unpacked files to their places, and gives them their times. */
async function placeAll(
  stage: Stage,
  { entries }: UnpackedArchive,
  strip: string,
  outcomes: readonly FileOutcome[],
): Promise<void> {
  const staged = outcomes.filter(({ kind }) => kind !== 'kept').map(({ file }) => file);
  const unneeded = entries.filter(
    ({ content }, index) => content.kind === 'written' && outcomes[index]?.kind === 'kept',
  );
  await doInThread('place', {
    tree: stage.tree,
    dropped: unneeded.map(({ path }) => path),
    unwrapped: strip === '' ? null : { folder: strip.slice(0, -1), aside: join(stage.folder, STAGED.aside) },
    paths: staged.map(({ path }) => path),
    timesMs: staged.map(({ mtimeMs }) => mtimeMs),
  });
  for (const { path } of staged) stage.staged.add(path);
}

/**
 * The folder that the service put around everything, with its slash, or '', and whether that is certain. The listing may be older than
 * the archive, so that its names alone prove nothing: the service is asked which of the two paths of a file exists.
 * @param published the paths of the published files
 */
async function leadingFolder(
  reception: Reception,
  archive: UnpackedArchive,
  published: Iterable<string>,
): Promise<{ readonly strip: string } & Pick<Unpacked, 'isPlaced'>> {
  const paths = [...archive.entries, ...archive.skipped].map((entry) => entry.path);
  const found = findLeadingFolder(paths, new Set(reception.rows?.all.map((row) => row.path)));
  if (found.kind === 'none') return { strip: '', isPlaced: true };
  const prefix = `${found.folder}/`;
  const names = new Set(paths);
  // Without the folder, no other file may have the path of a sample, and answer for it: `a/a/x` would become `a/x`.
  const samples = archive.entries.filter(({ path }) => !names.has(prefix + path));
  // A path is promised to give the file of a workbook, and of no other (service specification, section 4.1).
  samples.sort((a, b) => Number(isWorkbookName(b.path)) - Number(isWorkbookName(a.path)));
  let isAnswered = false;
  for (const { path } of samples.slice(0, MOST_SAMPLES)) {
    const isWithFolder = await isFileThere(reception, path);
    const isWithoutFolder = await isFileThere(reception, path.slice(prefix.length));
    if (isWithFolder !== isWithoutFolder) return { strip: isWithoutFolder ? prefix : '', isPlaced: true };
    isAnswered ||= isWithFolder;
  }
  // Both are there if a file has each path, or if the service has an answer for every path: another pull would find out no more. Neither
  // is there if the file was deleted since, or not known yet.
  const isListed = found.kind === 'wrapped';
  const isLikely = isListed || findLeadingFolder(paths, published).kind === 'wrapped';
  return { strip: isLikely && samples.length > 0 ? prefix : '', isPlaced: isListed || isAnswered };
}

/** How many files the service is asked about, as long as its answers say nothing. */
const MOST_SAMPLES = 3;

/** Whether the service has a file; a web page in its place counts as none. */
async function isFileThere(reception: Reception, path: string): Promise<boolean> {
  try {
    return await isThere(reception, path);
  } catch (error) {
    if (error instanceof MirrorError && error.code === 'contents.wrong_kind') return false;
    throw error;
  }
}

/** Whether the service has a path on the branch of a target. @throws MirrorError also `contents.wrong_kind`, for a web page */
export async function isThere({ context, action, signal }: Reception, path: string): Promise<boolean> {
  const { repository, target } = action;
  return (await context.service.exists({ repository, branch: target.branch, path, signal })) === true;
}

/** The time of a version, if the list of workbooks has one. Milliseconds since the epoch, as file systems can store it. */
export function timeOf(version: { readonly createdAt: string | null } | undefined): number | null {
  const versionTimeMs = Date.parse(version?.createdAt ?? '');
  return Number.isNaN(versionTimeMs) ? null : storableTimeMs(versionTimeMs);
}

/**
 * The time of a file whose bytes differ from the published file at its path: see {@link timeApartMs}.
 * @param timeMs the time of its version or its archive
 */
export function timeOfNewBytes(
  timeMs: number,
  sizeBytes: number,
  previous: ManifestFile | undefined,
): number {
  if (previous?.sizeBytes !== sizeBytes) return timeMs;
  return timeApartMs(timeMs, previous.mtimeMs, timeOf(previous.workbook) ?? previous.mtimeMs);
}
