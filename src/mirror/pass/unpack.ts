import { MirrorError } from '../../lib/errors/errors.ts';
import { isTimeFor, storableTimeMs, timeApartMs } from '../../lib/time/file-time.ts';
import { findLeadingFolder } from '../archive/leading-folder.ts';
import { byCodeUnits, type ManifestFile, type SkippedEntry } from '../store/manifest.ts';
import { isDeletion } from '../plan/contradictions.ts';
import { rowsAtFiles } from '../plan/rows-at-files.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { ArchiveEntry, Archive, ExtractionOrder } from '../archive/archive.ts';
import type { Extracted } from '../file-work/tasks.ts';
import type { PageCachePolicy, Reception } from './execution.ts';
import type { PublishedState } from './published-state.ts';
import type { Stage } from '../store/publish/stage.ts';
import { submodulesOf } from './submodules.ts';

/** The new state of a target: staged where it differs from what is published. */
export interface Unpacked {
  /** Sorted by path; without their versions. */
  readonly files: readonly ManifestFile[];
  readonly skipped: readonly SkippedEntry[];
  /** Files whose bytes are what the manifest says and whose published copy is not: someone changed it. */
  readonly rewritten: readonly string[];
  /** Whether every byte was compared or written. */
  readonly isThorough: boolean;
}

/** Whether large files go past the page cache. @param isFirst whether the target is mirrored for the first time */
export function goesPastCache(policy: PageCachePolicy, isFirst: boolean): boolean {
  return policy === 'bypass' || (policy === 'auto' && isFirst);
}

/**
 * Unpacks an archive into a stage, leaving out the files whose published copy already holds the same bytes. The same size and CRC-32
 * prove that, except for workbooks that have a new version, or another digest in the list; a thorough pull compares every byte.
 * @param hasFileTimes whether the archive's times are those that the files are to have, also where their bytes did not change
 */
export async function unpack(
  reception: Reception,
  archive: Archive,
  stage: Stage,
  before: PublishedState,
  hasFileTimes: boolean,
): Promise<Unpacked> {
  const { context, policy, action, meter, signal } = reception;
  const { branch } = action.target;
  const strip = await leadingFolder(reception, archive);
  const listed = (reception.rows ?? []).filter((row) => row.branch === branch);
  const present = listed.filter((row) => !isDeletion(row));
  if (archive.entries.length === 0 && present.length > 0) throw emptyArchive(present.length);
  const rows = rowsAtFiles(
    listed,
    archive.entries.map(({ path }) => path.slice(strip.length)),
  );
  const { kept, orders } = ordersFor(archive, strip, {
    rows: new Map(rows.map((row) => [row.path, row])),
    stage,
    before,
    hasFileTimes,
    isThorough: action.depth === 'bytes',
  });
  meter.unpacks(orders.reduce((sum, { order }) => sum + order.entry.sizeBytes, 0));
  const onBytes = (bytes: number): void => {
    meter.unpacked(bytes);
    context.onProgress();
  };
  const extracted = await archive.extract(
    orders.map(({ order }) => order),
    {
      isPastCache: goesPastCache(policy.pageCache, before.manifest === null),
      signal,
      onBytes,
    },
  );
  const files: ManifestFile[] = [...kept];
  const rewritten: string[] = [];
  for (const [index, { path, order, previous }] of orders.entries()) {
    const outcome = extracted[index];
    if (outcome === undefined) throw new MirrorError('internal.defect', `Nothing became of ${path}.`);
    files.push(fileOf(path, order, outcome, previous));
    if (outcome.kind === 'kept') continue;
    stage.adopt(path);
    if (outcome.isRewritten) rewritten.push(path);
  }
  const skipped = archive.skipped.map(({ path, reason }) => ({ path: path.slice(strip.length), reason }));
  return {
    files: files.sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped: [...skipped, ...(await submodulesOf(stage, files, skipped))],
    rewritten,
    isThorough: kept.length === 0,
  };
}

function emptyArchive(listed: number): MirrorError {
  return new MirrorError(
    'contents.empty',
    `The service gives an archive without files, although it lists ${listed} workbooks there.`,
    { hint: 'Nothing was replaced.' },
  );
}

/** A file of the new tree, with the order to extract it. */
interface FileOrder {
  readonly path: string;
  readonly order: ExtractionOrder;
  /** The published file of this path; undefined where there is none. */
  readonly previous: ManifestFile | undefined;
}

/** The facts by which files of the archive are compared with the published ones. */
interface Comparison {
  /** The rows of the branch, by path. */
  readonly rows: ReadonlyMap<string, WorkbookRow>;
  readonly stage: Stage;
  readonly before: PublishedState;
  readonly hasFileTimes: boolean;
  readonly isThorough: boolean;
}

/** The entries of an archive, as far as is known before any is read. */
interface Orders {
  /** The published files that stay, as the same size and CRC-32 prove. */
  readonly kept: readonly ManifestFile[];
  readonly orders: readonly FileOrder[];
}

function ordersFor(archive: Archive, strip: string, comparison: Comparison): Orders {
  const published = new Map(comparison.before.manifest?.files.map((file) => [file.path, file]));
  const kept: ManifestFile[] = [];
  const orders: FileOrder[] = [];
  for (const entry of archive.entries) {
    const path = entry.path.slice(strip.length);
    const previous = published.get(path);
    if (previous !== undefined && isSameByChecksum(comparison, entry, previous)) kept.push(previous);
    else orders.push(orderFor(comparison, entry, path, previous));
  }
  return { kept, orders };
}

/** Whether the published file may stay unread. It was looked at when the pull began. */
function isSameByChecksum(comparison: Comparison, entry: ArchiveEntry, previous: ManifestFile): boolean {
  const { rows, isThorough } = comparison;
  if (isThorough || previous.sizeBytes !== entry.sizeBytes || previous.crc32 !== entry.crc32) return false;
  const row = rows.get(previous.path);
  const isNewVersion = row !== undefined && row.versionId !== previous.workbook?.versionId;
  const isOtherListed = (row?.sha256 ?? previous.sha256) !== previous.sha256;
  return !isNewVersion && !isOtherListed && mayStay(comparison, previous, timeIn(comparison, entry, row));
}

function mayStay({ before, hasFileTimes }: Comparison, previous: ManifestFile, mtimeMs: number): boolean {
  return before.isTrusted(previous.path) && keepsTime(hasFileTimes, previous, mtimeMs);
}

/** Whether a published file whose bytes stay has the right time. @param mtimeMs that of the archive or of the version */
function keepsTime(hasFileTimes: boolean, previous: ManifestFile, mtimeMs: number): boolean {
  return !hasFileTimes || isTimeFor(mtimeMs, previous.mtimeMs);
}

/** The time of an entry's file. Milliseconds since the epoch. */
function timeIn(
  { hasFileTimes, stage }: Comparison,
  entry: ArchiveEntry,
  row: WorkbookRow | undefined,
): number {
  return stage.timeFor(hasFileTimes ? entry.modifiedAtMs : (timeOf(row) ?? entry.modifiedAtMs));
}

function orderFor(
  comparison: Comparison,
  entry: ArchiveEntry,
  path: string,
  previous: ManifestFile | undefined,
): FileOrder {
  const { rows, stage, hasFileTimes } = comparison;
  const mtimeMs = timeIn(comparison, entry, rows.get(path));
  const order: ExtractionOrder = {
    entry,
    destination: stage.placeOf(path),
    mtimeMs: timeOfNewBytes(mtimeMs, entry.sizeBytes, previous),
    keptTimeMs:
      previous !== undefined && keepsTime(hasFileTimes, previous, mtimeMs)
        ? stage.timeFor(previous.mtimeMs)
        : mtimeMs,
    known:
      previous?.sizeBytes === entry.sizeBytes
        ? {
            place: stage.publishedPlaceOf(path),
            sha256: previous.sha256,
            mode: previous.mode,
            mtimeMs: previous.mtimeMs,
            mayStay: mayStay(comparison, previous, mtimeMs),
          }
        : null,
  };
  return { path, order, previous };
}

function fileOf(
  path: string,
  { entry, mtimeMs, keptTimeMs }: ExtractionOrder,
  outcome: Extracted,
  previous: ManifestFile | undefined,
): ManifestFile {
  const { sizeBytes, crc32 } = entry;
  if (outcome.kind === 'kept' && previous !== undefined)
    return previous.crc32 === crc32 ? previous : { ...previous, crc32 };
  if (outcome.kind === 'kept') throw new MirrorError('internal.defect', `${path} was kept and is not there.`);
  const { sha256, mode, isRewritten } = outcome;
  return { path, sizeBytes, sha256, mode, mtimeMs: isRewritten ? keptTimeMs : mtimeMs, crc32 };
}

/**
 * The folder that the service put around everything, with its slash, or the empty text. The listing may be older than the
 * archive, so that its names alone prove nothing: the service is asked which of the two paths of a file it knows.
 */
async function leadingFolder(
  { context, repository, action, rows, signal }: Reception,
  archive: Archive,
): Promise<string> {
  const { branch } = action.target;
  const exists = (path: string): Promise<boolean> =>
    context.service.exists({ repository, branch, path, signal });
  const paths = [...archive.entries, ...archive.skipped].map((entry) => entry.path);
  const found = findLeadingFolder(paths, new Set(rows?.map((row) => row.path)));
  const [sample] = archive.entries;
  if (found.kind === 'none' || sample === undefined) return '';
  const prefix = `${found.folder}/`;
  if (await exists(sample.path.slice(prefix.length))) return prefix;
  if (await exists(sample.path)) return '';
  return found.kind === 'wrapped' ? prefix : '';
}

/** The time of a version, where the list of workbooks has one. Milliseconds since the epoch, as a file system can keep it. */
export function timeOf(version: { readonly createdAt: string | null } | undefined): number | null {
  const versionTimeMs = Date.parse(version?.createdAt ?? '');
  return Number.isNaN(versionTimeMs) ? null : storableTimeMs(versionTimeMs);
}

/**
 * The time of a file whose bytes are not those of the published file of its path: see {@link timeApartMs}.
 * @param timeMs the time that its version or its archive has
 */
export function timeOfNewBytes(
  timeMs: number,
  sizeBytes: number,
  previous: ManifestFile | undefined,
): number {
  if (previous?.sizeBytes !== sizeBytes) return timeMs;
  return timeApartMs(timeMs, previous.mtimeMs, timeOf(previous.workbook) ?? previous.mtimeMs);
}
