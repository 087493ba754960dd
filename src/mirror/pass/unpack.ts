import { MirrorError } from '../../lib/errors/errors.ts';
import { findLeadingFolder } from '../archive/leading-folder.ts';
import { byCodeUnits, type Manifest, type ManifestFile, type SkippedEntry } from '../store/manifest.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { ArchiveEntry, Archive, ExtractionOrder } from '../archive/archive.ts';
import type { Extracted } from '../file-work/tasks.ts';
import type { Stage } from '../store/publish/stage.ts';

/** What unpacking works with. */
export interface UnpackRequest {
  readonly archive: Archive;
  readonly stage: Stage;
  readonly branch: string;
  /** Rows of the whole repository; none where the service has no list of workbooks. */
  readonly rows: readonly WorkbookRow[];
  /** What is published, to find out what did not change; null when nothing is. */
  readonly previous: Manifest | null;
  /** Whether the published copy of a file may be taken for what its manifest says. */
  readonly isTrusted: (path: string) => boolean;
  /**
   * Whether every byte is compared with what is published. Otherwise the same size and CRC-32 will do, except for workbooks that
   * have a new version.
   */
  readonly isThorough: boolean;
  /** Whether the archive's times are those that the files are to have, also where their bytes did not change. */
  readonly hasFileTimes: boolean;
  /** Asks the service whether a path exists in the contents. */
  readonly exists: (path: string) => Promise<boolean>;
  /** Is told how much there is to read or write, before any of it is. */
  readonly onBegin: (totalBytes: number) => void;
  /** Is told of bytes as they are read or written. */
  readonly onBytes: (bytes: number) => void;
  readonly signal: AbortSignal;
}

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

/** Unpacks an archive into a stage, leaving out the files whose published copy already holds the same bytes. */
export async function unpack(request: UnpackRequest): Promise<Unpacked> {
  const { archive, stage, signal, onBytes } = request;
  const strip = await leadingFolder(request);
  refuseEmpty(request);
  const orders = await ordersFor(request, strip);
  request.onBegin(bytesToRead(orders));
  const extracted = await archive.extract(
    orders.map(({ order }) => order),
    { sharing: stage.sharing, signal, onBytes },
  );
  const files: ManifestFile[] = [];
  const rewritten: string[] = [];
  for (const [index, { path, order, previous }] of orders.entries()) {
    const outcome = extracted[index];
    if (outcome === undefined) throw new MirrorError('internal.defect', `Nothing became of ${path}.`);
    files.push(fileOf(path, order, outcome, previous));
    if (outcome.kind === 'kept') continue;
    stage.adopt(path, outcome.isShared);
    if (outcome.isRewritten) rewritten.push(path);
  }
  return {
    files: files.sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped: archive.skipped.map(({ path, reason }) => ({ path: path.slice(strip.length), reason })),
    rewritten,
    isThorough: extracted.every((outcome) => outcome.kind !== 'kept' || outcome.isRead),
  };
}

/** What is read of an archive, and written where it is new: not what its checksum says is there already. */
function bytesToRead(orders: readonly FileOrder[]): number {
  return orders.reduce(
    (sum, { order }) => sum + (order.known?.isSameByChecksum === true ? 0 : order.entry.sizeBytes),
    0,
  );
}

function refuseEmpty({ archive, rows, branch }: UnpackRequest): void {
  const listed = rows.filter((row) => row.branch === branch).length;
  if (archive.entries.length > 0 || listed === 0) return;
  throw new MirrorError(
    'contents.empty',
    `The service gives an archive without files, although it lists ${listed} workbooks there.`,
    { hint: 'Nothing was replaced. It is tried again by itself.' },
  );
}

/** What is to become of a file of the new tree. */
interface FileOrder {
  readonly path: string;
  readonly order: ExtractionOrder;
  /** The published file of this path; undefined where there is none. */
  readonly previous: ManifestFile | undefined;
}

async function ordersFor(request: UnpackRequest, strip: string): Promise<FileOrder[]> {
  const { archive, stage, branch, rows, hasFileTimes } = request;
  const rowsByPath = new Map(rows.filter((row) => row.branch === branch).map((row) => [row.path, row]));
  const published = new Map(request.previous?.files.map((file) => [file.path, file]));
  const candidates = await stage.candidatesOf(archive.entries);
  return archive.entries.map((entry, index) => {
    const path = entry.path.slice(strip.length);
    const row = rowsByPath.get(path);
    const previous = published.get(path);
    const mtimeMs = hasFileTimes ? entry.modifiedAtMs : (timeOf(row) ?? entry.modifiedAtMs);
    const known =
      previous?.sizeBytes === entry.sizeBytes ? knownFile(request, entry, previous, row, mtimeMs) : null;
    const keptTimeMs = hasFileTimes ? mtimeMs : (previous?.mtimeMs ?? mtimeMs);
    const destination = stage.placeOf(path);
    const own = stage.publishedPlaceOf(path);
    const others = (candidates[index] ?? []).filter(({ place }) => place !== own);
    const order = { entry, destination, mtimeMs, keptTimeMs, known, candidates: others };
    return { path, order, previous };
  });
}

function knownFile(
  { stage, isTrusted, isThorough, hasFileTimes }: UnpackRequest,
  entry: ArchiveEntry,
  previous: ManifestFile,
  row: WorkbookRow | undefined,
  mtimeMs: number,
): ExtractionOrder['known'] {
  const isNewVersion = row !== undefined && row.versionId !== previous.workbook?.versionId;
  return {
    place: stage.publishedPlaceOf(previous.path),
    sha256: previous.sha256,
    mode: previous.mode,
    mtimeMs: previous.mtimeMs,
    mayStay: isTrusted(previous.path) && (!hasFileTimes || previous.mtimeMs === mtimeMs),
    isSameByChecksum: !isThorough && !isNewVersion && previous.crc32 === entry.crc32,
  };
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
  const { sha256, mode, isRewritten, isShared } = outcome;
  return {
    path,
    sizeBytes,
    sha256,
    mode,
    mtimeMs: isRewritten ? keptTimeMs : mtimeMs,
    crc32,
    ...(isShared ? { isShared } : {}),
  };
}

/**
 * The folder that the service put around everything, with its slash, or the empty text. The listing may be older than the
 * archive, so that its names alone prove nothing: the service is asked which of the two paths of a file it knows.
 */
async function leadingFolder({ archive, rows, exists }: UnpackRequest): Promise<string> {
  const paths = [...archive.entries, ...archive.skipped].map((entry) => entry.path);
  const found = findLeadingFolder(paths, new Set(rows.map((row) => row.path)));
  const [sample] = archive.entries;
  if (found.kind === 'none' || sample === undefined) return '';
  const prefix = `${found.folder}/`;
  if (await exists(sample.path.slice(prefix.length))) return prefix;
  if (await exists(sample.path)) return '';
  return found.kind === 'wrapped' ? prefix : '';
}

/** The time of a version, where the list of workbooks has one. Milliseconds since the epoch. */
export function timeOf(row: WorkbookRow | undefined): number | null {
  const versionTimeMs = Date.parse(row?.createdAt ?? '');
  return Number.isNaN(versionTimeMs) ? null : versionTimeMs;
}
