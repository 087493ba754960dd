import { join } from 'node:path';

import { onDisk } from '../../lib/errors/disk-errors.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { nameFault } from '../../lib/paths/file-name.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { isTimeFor, storableTimeMs, timeApartMs } from '../../lib/time/file-time.ts';
import { findLeadingFolder } from '../archive/policy.ts';
import { byCodeUnits, foldersWith, type ManifestFile, type SkippedEntry } from '../store/manifest.ts';
import { isDeletion, rowsAtFiles } from '../plan/workbooks.ts';
import type { WorkbookRow } from '../upstream/listing.ts';
import type { KnownFile } from '../archive/entry.ts';
import type { UnpackedArchive, UnpackedEntry } from '../archive/unpack.ts';
import type { KnownContent } from '../file-work/entry-file.ts';
import { doInThread } from '../file-work/pool.ts';
import type { PublishedState, Reception } from './context.ts';
import { STAGED } from '../store/publish/moves.ts';
import { keptTime, type Stage } from '../store/publish/stage.ts';

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

/**
 * The facts that are known of the files of an archive before it comes: the times of listed ones, and the contents of published ones,
 * which stay where they are the same. The same size and CRC-32 prove that, except for workbooks that have a new version, or another
 * digest in the list; a thorough pull compares every byte.
 * @param before null where nothing is to stay unread
 */
export function knownFiles(
  { action, rows }: Reception,
  stage: Stage,
  before: PublishedState | null,
): readonly KnownFile[] {
  const published = before?.manifest?.files.filter(({ path }) => before.isTrusted(path)) ?? [];
  const listed = (rows ?? []).filter((row) => row.branch === action.target.branch);
  const named = rowsAtFiles(
    listed,
    published.map(({ path }) => path),
  );
  const rowOf = new Map(named.map((row) => [row.path, row]));
  const fileOf = new Map(published.map((file) => [file.path, file]));
  const isThorough = action.depth === 'bytes';
  return [...new Set([...rowOf.keys(), ...fileOf.keys()])].map((path) => {
    const [row, file] = [rowOf.get(path), fileOf.get(path)];
    const timeMs = timeOf(row);
    return {
      path,
      timeMs: timeMs === null ? null : keptTime(stage, timeMs),
      content: file === undefined ? null : knownContent(file, !isThorough && isUnchanged(file, row)),
    };
  });
}

/** @param isProof whether size and checksum prove that a file is the same */
function knownContent({ sizeBytes, sha256, crc32 }: ManifestFile, isProof: boolean): KnownContent {
  return { sizeBytes, sha256, crc32: isProof ? (crc32 ?? null) : null };
}

/** Whether the list does not tell of another version of a published file. */
function isUnchanged({ workbook, sha256 }: ManifestFile, row: WorkbookRow | undefined): boolean {
  const isNewVersion = row !== undefined && row.versionId !== workbook?.versionId;
  return !isNewVersion && (row?.sha256 ?? sha256) === sha256;
}

/**
 * Makes the new state of an archive that was unpacked into a stage: files whose published copy holds the same bytes are left out of it.
 * @param hasFileTimes whether the archive's times are those that the files are to have, also where their bytes did not change
 * @returns null where a file is not there that is needed
 */
export async function unpack(
  reception: Reception,
  archive: UnpackedArchive,
  stage: Stage,
  before: PublishedState,
  hasFileTimes: boolean,
): Promise<Unpacked | null> {
  const { action } = reception;
  const { branch } = action.target;
  const strip = await leadingFolder(reception, archive);
  const listed = (reception.rows ?? []).filter((row) => row.branch === branch);
  const present = listed.filter((row) => !isDeletion(row));
  if (archive.entries.length === 0 && present.length > 0) throw emptyArchive(present.length);
  const rows = rowsAtFiles(
    listed,
    archive.entries.map(({ path }) => path.slice(strip.length)),
  );
  const outcomes = outcomesOf(archive, strip, {
    rows: new Map(rows.map((row) => [row.path, row])),
    stage,
    before,
    hasFileTimes,
    isThorough: action.depth === 'bytes',
  });
  if (outcomes === null) return null;
  await placeAll(stage, archive, strip, outcomes);
  const files = outcomes.map(({ file }) => file);
  for (const { file, kind } of outcomes) if (kind !== 'kept') stage.staged.add(file.path);
  const skipped = archive.skipped.map(({ path, reason }) => ({ path: path.slice(strip.length), reason }));
  return {
    files: files.sort((a, b) => byCodeUnits(a.path, b.path)),
    skipped: [...skipped, ...(await submodulesOf(stage, files, skipped))],
    rewritten: outcomes.flatMap(({ file, kind }) => (kind === 'rewritten' ? [file.path] : [])),
    isThorough: archive.entries.every(({ content }) => content.kind !== 'same' || content.by !== 'crc32'),
  };
}

function emptyArchive(listed: number): MirrorError {
  return new MirrorError(
    'contents.empty',
    `The service gives an archive without files, although it lists ${listed} workbooks there.`,
    { hint: 'Nothing was replaced.' },
  );
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

/** A file of the new tree. `rewritten`: its bytes are those that the published file should have and has not. */
interface FileOutcome {
  readonly kind: 'kept' | 'written' | 'rewritten';
  readonly file: ManifestFile;
  /** The time that the file in the stage has, in milliseconds since the epoch; null where there is none. */
  readonly timeMs: number | null;
}

/** @returns null where a file is not there that is needed */
function outcomesOf(
  archive: UnpackedArchive,
  strip: string,
  comparison: Comparison,
): readonly FileOutcome[] | null {
  const published = new Map(comparison.before.manifest?.files.map((file) => [file.path, file]));
  const outcomes: FileOutcome[] = [];
  for (const entry of archive.entries) {
    const path = entry.path.slice(strip.length);
    const outcome = outcomeOf(comparison, entry, path, published.get(path));
    if (outcome === null) return null;
    outcomes.push(outcome);
  }
  return outcomes;
}

/** @returns null where the file is not there that is needed */
function outcomeOf(
  comparison: Comparison,
  entry: UnpackedEntry,
  path: string,
  previous: ManifestFile | undefined,
): FileOutcome | null {
  const { content, sizeBytes, crc32, modifiedAtMs } = entry;
  const { rows, stage, before, hasFileTimes } = comparison;
  const row = rows.get(path);
  const ownTimeMs = keptTime(stage, hasFileTimes ? modifiedAtMs : (timeOf(row) ?? modifiedAtMs));
  const keepsTime = previous !== undefined && (!hasFileTimes || isTimeFor(ownTimeMs, previous.mtimeMs));
  const staying = keepsTime && before.isTrusted(path) ? previous : undefined;
  if (content.kind === 'same')
    return staying !== undefined && isSame(comparison, content, staying, row) ? kept(staying, crc32) : null;
  const { sha256, mode, timeMs } = content;
  const file = { path, sizeBytes, sha256, mode, crc32 };
  if (previous?.sha256 !== sha256)
    return {
      kind: 'written',
      file: { ...file, mtimeMs: timeOfNewBytes(ownTimeMs, sizeBytes, previous) },
      timeMs,
    };
  if (staying !== undefined) return kept(staying, crc32);
  const mtimeMs = keepsTime ? keptTime(stage, previous.mtimeMs) : ownTimeMs;
  return { kind: 'rewritten', file: { ...file, mtimeMs }, timeMs };
}

/** Whether a published file is the one that an entry was found to be the same as, by a proof that counts. */
function isSame(
  { isThorough }: Comparison,
  { by, as }: Extract<UnpackedEntry['content'], { kind: 'same' }>,
  previous: ManifestFile,
  row: WorkbookRow | undefined,
): boolean {
  return as === previous.path && (by === 'sha256' || (!isThorough && isUnchanged(previous, row)));
}

function kept(previous: ManifestFile, crc32: number): FileOutcome {
  return { kind: 'kept', file: previous.crc32 === crc32 ? previous : { ...previous, crc32 }, timeMs: null };
}

/** Brings the unpacked files to their places, and gives them their times. */
async function placeAll(
  stage: Stage,
  archive: UnpackedArchive,
  strip: string,
  outcomes: readonly FileOutcome[],
): Promise<void> {
  const { tree } = stage;
  const unneeded = archive.entries.filter(
    ({ content }, index) => content.kind === 'written' && outcomes[index]?.kind === 'kept',
  );
  const dropped = unneeded.map(({ path }) => path);
  const unwrapped =
    strip === '' ? null : { folder: strip.slice(0, -1), aside: join(stage.folder, STAGED.aside) };
  const late = outcomes.filter(({ kind, file, timeMs }) => kind !== 'kept' && timeMs !== file.mtimeMs);
  if (dropped.length === 0 && unwrapped === null && late.length === 0) return;
  await doInThread('place', {
    tree,
    dropped,
    unwrapped,
    paths: late.map(({ file }) => file.path),
    timesMs: Float64Array.from(late, ({ file }) => file.mtimeMs),
  });
}

/**
 * The folder that the service put around everything, with its slash, or the empty text. The listing may be older than the
 * archive, so that its names alone prove nothing: the service is asked which of the two paths of a file it knows.
 */
async function leadingFolder(
  { context, repository, action, rows, signal }: Reception,
  archive: UnpackedArchive,
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

/** The file in which Git keeps the places of submodules (gitmodules(5)), at the top of a repository. */
const GITMODULES = '.gitmodules';
/** One that is greater is not read: it would take the manifest beyond all bounds. */
const MOST_BYTES = 1024 * 1024;

/**
 * The submodules of a tree, which are other repositories: an archive has an empty folder in the place of one, or nothing. So each that
 * `.gitmodules` names counts as left out, unless there is something in its place.
 * @param skipped what else was left out
 * @throws MirrorError `disk.*`
 */
async function submodulesOf(
  stage: Stage,
  files: readonly ManifestFile[],
  skipped: readonly SkippedEntry[],
): Promise<SkippedEntry[]> {
  if (!files.some(({ path }) => path === GITMODULES)) return [];
  const isStaged = stage.staged.has(GITMODULES);
  const place = join(isStaged ? stage.tree : stage.published, GITMODULES);
  const text = await onDisk(`reading ${GITMODULES}`, () => readOwnText(place, MOST_BYTES));
  const paths = [...files, ...skipped].map(({ path }) => path);
  const taken = new Set([...paths, ...foldersWith(paths)]);
  const left = new Set(submodulePaths(text ?? '').filter((path) => !taken.has(path)));
  return [...left].map((path) => ({ path, reason: 'submodule' }));
}

const SECTION = /^\[\s*submodule(?:\s+"(?:[^"\\]|\\.)*"|\.[^\]]*)\s*\]/i;

/** The paths that the sections of submodules have (git-config(1), "Syntax"), as far as a tree can have such. */
function submodulePaths(text: string): string[] {
  const paths: string[] = [];
  let isSubmodule = false;
  for (const line of text.replaceAll(/\\\r?\n/g, '').split('\n')) {
    let rest = line.trim();
    if (rest.startsWith('[')) {
      const header = SECTION.exec(rest)?.[0];
      isSubmodule = header !== undefined;
      rest = rest.slice(header?.length ?? rest.length).trim();
    }
    const value = isSubmodule ? /^path\s*=(?<value>.*)$/i.exec(rest)?.groups?.['value'] : undefined;
    const path = unquoted(value ?? '').replace(/\/$/, '');
    if (nameFault(path) === null) paths.push(path);
  }
  return paths;
}

/** A value without its quotation marks, backslashes and comment. */
function unquoted(value: string): string {
  const parts = value.matchAll(/"((?:[^"\\]|\\.)*)"?|\\(.)|[#;].*|([^"\\#;]+)/g);
  return [...parts]
    .map(([, quoted = '', escaped = '', plain = '']) => quoted.replaceAll(/\\(.)/g, '$1') + escaped + plain)
    .join('')
    .trim();
}
