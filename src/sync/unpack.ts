import { createHash } from 'node:crypto';

import { MirrorError } from '../model/errors.ts';
import { findLeadingFolder } from '../model/leading-folder.ts';
import { byCodeUnits, type Manifest, type ManifestFile, type SkippedEntry } from '../model/manifest.ts';
import type { WorkbookRow } from '../model/service.ts';
import { forEachConcurrently } from '../model/concurrency.ts';
import type { ArchiveEntryPort, ArchivePort, StagePort } from './ports.ts';

/** What unpacking works with. */
export interface UnpackRequest {
  readonly archive: ArchivePort;
  readonly stage: StagePort;
  readonly branch: string;
  /** Rows of the whole repository; none where the service has no list of workbooks. */
  readonly rows: readonly WorkbookRow[];
  /** What is published, to find out what did not change; null when nothing is. */
  readonly previous: Manifest | null;
  /** Whether the published copy of a file may be taken for what its manifest says. */
  readonly isTrusted: (path: string) => boolean;
  /** Whether the archive's times are those that the files are to have, also where their bytes did not change. */
  readonly hasFileTimes: boolean;
  /** Asks the service whether a path exists in the contents. */
  readonly exists: (path: string) => Promise<boolean>;
  readonly signal: AbortSignal;
}

/** The new state of a target: staged where it differs from what is published. */
export interface Unpacked {
  /** Sorted by path; without their versions. */
  readonly files: readonly ManifestFile[];
  readonly skipped: readonly SkippedEntry[];
  /** Files whose bytes are what the manifest says and whose published copy is not: someone changed it. */
  readonly rewritten: readonly string[];
}

const ENTRIES_AT_ONCE = 4;

/** Unpacks an archive into a stage, leaving out the files whose published copy already holds the same bytes. */
export async function unpack(request: UnpackRequest): Promise<Unpacked> {
  const strip = await leadingFolder(request);
  const own = request.rows.filter((row) => row.branch === request.branch);
  if (request.archive.entries.length === 0 && own.length > 0) {
    throw new MirrorError(
      'contents.empty',
      `The service gives an archive without files, although it lists ${own.length} workbooks there.`,
      { hint: 'Nothing was replaced. It is tried again by itself.' },
    );
  }
  const rowsByPath = new Map(own.map((row) => [row.path, row]));
  const previous = new Map(request.previous?.files.map((file) => [file.path, file]));
  const files: ManifestFile[] = [];
  const rewritten: string[] = [];
  await forEachConcurrently(request.archive.entries, ENTRIES_AT_ONCE, async (entry) => {
    request.signal.throwIfAborted();
    const path = entry.path.slice(strip.length);
    const known = previous.get(path);
    const mtimeMs = request.hasFileTimes ? entry.modifiedAtMs : timeOf(rowsByPath.get(path), entry);
    const isIntact = async (): Promise<boolean> =>
      known !== undefined &&
      (!request.hasFileTimes || known.mtimeMs === mtimeMs) &&
      request.isTrusted(path) &&
      (await request.stage.isIntact(known));
    const keptTimeMs = request.hasFileTimes ? mtimeMs : (known?.mtimeMs ?? mtimeMs);
    const staged = await stageEntry(request.stage, entry, path, { mtimeMs, keptTimeMs }, known, isIntact);
    files.push(staged.file);
    if (staged.isRewritten) rewritten.push(path);
  });
  return {
    files: files.sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped: request.archive.skipped.map((entry) => ({ ...entry, path: entry.path.slice(strip.length) })),
    rewritten,
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

/** The time of a version where the list of workbooks has one, else the archive's. */
function timeOf(row: WorkbookRow | undefined, { modifiedAtMs }: ArchiveEntryPort): number {
  const versionTimeMs = Date.parse(row?.createdAt ?? '');
  return Number.isNaN(versionTimeMs) ? modifiedAtMs : versionTimeMs;
}

/** @param times the one for other bytes, and the one for the same bytes, in milliseconds since the epoch */
async function stageEntry(
  stage: StagePort,
  entry: ArchiveEntryPort,
  path: string,
  { mtimeMs, keptTimeMs }: { readonly mtimeMs: number; readonly keptTimeMs: number },
  previous: ManifestFile | undefined,
  isIntact: () => Promise<boolean>,
): Promise<{ file: ManifestFile; isRewritten: boolean }> {
  const isCandidate = previous?.sizeBytes === entry.sizeBytes;
  if (!isCandidate) {
    return { file: await stage.write(path, mtimeMs, entry.read()), isRewritten: false };
  }
  const whole = await entry.readWhole();
  if (whole !== null) {
    const isSame = createHash('sha256').update(whole).digest('hex') === previous.sha256;
    if (isSame && (await isIntact())) return { file: previous, isRewritten: false };
    const file = await stage.write(path, isSame ? keptTimeMs : mtimeMs, [whole]);
    return { file, isRewritten: isSame };
  }
  const file = await stage.write(path, mtimeMs, entry.read());
  if (file.sha256 !== previous.sha256) return { file, isRewritten: false };
  if (!(await isIntact())) return { file, isRewritten: true };
  await stage.drop(path);
  return { file: previous, isRewritten: false };
}
