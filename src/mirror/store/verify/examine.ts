import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';
import { withOpen } from '../../../lib/disk/read.ts';
import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { doInThread } from '../../file-work/pool.ts';
import { type EntryKind, problemOf, type Walked } from '../../file-work/trees.ts';
import type { DriftSummary } from '../../plan/record.ts';
import { manifestStamp, readManifestFile } from '../inventory.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import type { ManifestReading } from '../manifest-text.ts';
import { foldersWith } from '../../../lib/paths/file-name.ts';
import { byCodeUnits, type ManifestFile } from '../manifest.ts';
import { linkFinder, publishedTree } from '../published-tree.ts';
import { unfinishedPublishes } from '../publish/journal.ts';

/** The ways in which a file can differ from its manifest. */
export type Modification = 'size' | 'mode' | 'mtime' | 'bytes' | 'not a file';

/** One way in which a tree differs from its manifest. */
export type Difference =
  | { readonly path: string; readonly kind: 'added'; readonly entry: EntryKind }
  | { readonly path: string; readonly kind: 'missing' }
  | { readonly path: string; readonly kind: 'modified'; readonly what: readonly Modification[] }
  /** Could not be compared; `problem` is the system's reason. */
  | { readonly path: string; readonly kind: 'unreadable'; readonly problem: string };

/** The digests of the files whose bytes were read, and the files that could not be read. */
interface ReadBytes {
  /** SHA-256 in hexadecimal digits, by path. */
  readonly digests: ReadonlyMap<string, string>;
  readonly problems: Walked['problems'];
}

/**
 * Compares the entries found in a tree with the files of its manifest. Folders are implied by files: a folder that no file
 * needs counts as added if it is empty; otherwise its contents are reported.
 * @param read left out if no bytes were read
 * @returns the differences, sorted by path
 */
export function differencesOf(
  files: readonly ManifestFile[],
  walked: Walked,
  read: ReadBytes = { digests: new Map(), problems: [] },
): readonly Difference[] {
  const { paths } = walked;
  const problems = [...walked.problems, ...read.problems];
  const unreadable = new Set(problems.map(({ path }) => path));
  // Without the files of the manifest, one after the other: in the end only the other entries are left.
  const left = new Map(paths.map((path, index) => [path, index]));
  const absent: string[] = [];
  const differences: Difference[] = [];
  for (const file of files) {
    const { path } = file;
    const index = left.get(path);
    left.delete(path);
    if (index === undefined) {
      absent.push(path);
      if (!unreadable.has(path) && !isWithin(path, unreadable)) differences.push({ path, kind: 'missing' });
      continue;
    }
    if (unreadable.has(path)) continue;
    const what = modificationsOf(file, walked, index, read.digests.get(path));
    if (what.length > 0) differences.push({ path, kind: 'modified', what });
  }
  const needed = foldersWith([...paths, ...absent, ...unreadable]);
  for (const [path, index] of left) {
    const { [index]: entry = 'special' } = walked.kinds;
    if (!(entry === 'folder' && needed.has(path))) differences.push({ path, kind: 'added', entry });
  }
  for (const { path, problem } of problems) differences.push({ path, kind: 'unreadable', problem });
  return differences.sort((a, b) => byCodeUnits(a.path, b.path));
}

function isWithin(path: string, folders: ReadonlySet<string>): boolean {
  return folders.size > 0 && [...foldersWith([path])].some((folder) => folders.has(folder));
}

function modificationsOf(
  file: ManifestFile,
  walked: Walked,
  index: number,
  sha256 = file.sha256,
): Modification[] {
  if (walked.kinds[index] !== 'file') return ['not a file'];
  const what: Modification[] = [];
  if (walked.sizesBytes[index] !== file.sizeBytes) what.push('size');
  if (walked.modes[index] !== file.mode) what.push('mode');
  if (walked.mtimesMs[index] !== file.mtimeMs) what.push('mtime');
  if (sha256 !== file.sha256) what.push('bytes');
  return what;
}

/** Counts differences; an unreadable entry counts as modified. */
export function summariseDrift(differences: readonly Difference[]): DriftSummary {
  const count = (...kinds: readonly Difference['kind'][]): number =>
    differences.filter(({ kind }) => kinds.includes(kind)).length;
  return {
    added: count('added'),
    missing: count('missing'),
    modified: count('modified', 'unreadable'),
    first: differences[0]?.path ?? '',
  };
}

/** Whether a file can be trusted to match its manifest: neither it nor a folder around it is among the tree's differences. */
export function trustOf(differences: readonly Difference[]): (path: string) => boolean {
  const suspects = new Set(differences.map(({ path }) => path));
  if (suspects.has('.')) return () => false;
  return (path) => !suspects.has(path) && !isWithin(path, suspects);
}

/** Paths that someone added to a tree; null if unknown, because an entry beside its files cannot be read. */
export function foreignIn(
  differences: readonly Difference[],
  files: readonly ManifestFile[],
): readonly string[] | null {
  const own = new Set(files.map(({ path }) => path));
  if (differences.some(({ kind, path }) => kind === 'unreadable' && !own.has(path))) return null;
  return differences.filter(({ kind }) => kind === 'added').map(({ path }) => path);
}

/** How a tree is examined. */
export interface ExamineOptions {
  /** How closely: `facts` by `lstat` alone, `bytes` also by the SHA-256 of every file. */
  readonly depth: 'facts' | 'bytes';
  /** Ends the examination; its reason is thrown. */
  readonly signal: AbortSignal;
  /** Receives the number of bytes as they are read. */
  readonly onBytes?: (bytes: number) => void;
}

/** The differences of a missing tree. */
const GONE: readonly Difference[] = [{ path: '.', kind: 'missing' }];

/** Whether there is no folder in the place of the tree. */
export function isGone([first]: readonly Difference[]): boolean {
  return first?.path === '.' && first.kind === 'missing';
}

/**
 * Compares a tree with the files of its manifest. Follows no link, changes nothing, and no single file stops it: an
 * unreadable entry is a difference. A tree that changes at the same time may look like a mixture.
 * @param tree the folder of the tree; links on the way there are followed
 * @param files the files of its manifest
 * @throws the reason of `signal`
 */
export async function examineTree(
  tree: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<readonly Difference[]> {
  return compareWalked(tree, await doInThread('walk', tree, options.signal), files, options);
}

async function compareWalked(
  tree: string,
  walked: Walked | null,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<readonly Difference[]> {
  if (walked === null) return GONE;
  const ofTree = walked.problems.find(({ path }) => path === '.');
  if (ofTree !== undefined) return [{ ...ofTree, kind: 'unreadable' }];
  const read = options.depth === 'bytes' ? await readBytes(tree, walked, files, options) : undefined;
  options.signal.throwIfAborted();
  return differencesOf(files, walked, read);
}

/** An examined target. */
export interface ExaminedTarget extends ManifestReading {
  /** None without a valid manifest. */
  readonly differences: readonly Difference[];
  /** When the examination began. Milliseconds since the epoch. */
  readonly lookedAtMs: number;
}

/**
 * As {@link examineTree}, for a target whose manifest must still be read: a thread walks the tree while this one parses. Nothing
 * may publish the target at the same time. Behind a link, which may lead anywhere, there is no tree.
 * @param path `<repository>/<branch>`, below `mirror/`
 * @returns null if it has no manifest
 * @throws MirrorError `disk.*`, and the reason of `signal`
 */
export async function examineWithManifest(
  layout: DirectoryLayout,
  path: string,
  options: ExamineOptions,
): Promise<ExaminedTarget | null> {
  const lookedAtMs = Date.now();
  const tree = publishedTree(layout, path);
  const [walked, found] = await Promise.all([
    linkFinder(layout)(path) ? null : doInThread('walk', tree, options.signal),
    readManifestFile(manifestPath(layout, path)),
  ]);
  if (found === null) return null;
  const { manifest, problem } = found;
  const differences = manifest === null ? [] : await compareWalked(tree, walked, manifest.files, options);
  return { manifest, problem, differences, lookedAtMs };
}

/** A tree that differs while it is being published is examined again for this time, with pauses, in milliseconds. */
const LOOKS_MS = 10_000;
/** At least this many times: one look at a large tree may take longer. */
const LEAST_LOOKS = 3;
const LOOK_PAUSE_MS = 100;

/**
 * As {@link examineWithManifest}, also while another process publishes the target. A publish writes its journal, makes its moves,
 * including the manifest, removes emptied folders and then the journal. So a difference that it causes shows by the journal,
 * or afterwards by another manifest. The journal is looked for before the tree, too: it may be gone once the tree was read.
 */
export async function examineTarget(
  layout: DirectoryLayout,
  path: string,
  options: ExamineOptions,
): Promise<ExaminedTarget | null> {
  const endMs = performance.now() + LOOKS_MS;
  const stampNow = (): Promise<string | null> =>
    onDisk('looking at a manifest', async () => manifestStamp(layout, path));
  for (let looks = 1; ; looks += 1) {
    const stamp = await stampNow();
    const wasChanging = (await unfinishedPublishes(layout)).targets.has(path);
    const found = await examineWithManifest(layout, path, options);
    const isOver = looks >= LEAST_LOOKS && performance.now() > endMs;
    if (found === null || found.differences.length === 0 || isOver) return found;
    const isChanging = wasChanging || (await unfinishedPublishes(layout)).targets.has(path);
    if (!isChanging && (await stampNow()) === stamp) return found;
    await sleep(LOOK_PAUSE_MS, undefined, { signal: options.signal });
  }
}

/** How many files are read at a time: while one is hashed, others are being read from the disk. */
const READS = 16;

/** How many bytes of a file are in memory at a time. */
const CHUNK_BYTES = 512 * 1024;

/** Reads the files of a manifest that have the right size; at another size their bytes differ anyway. */
async function readBytes(
  tree: string,
  { paths, kinds, sizesBytes }: Walked,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<ReadBytes> {
  const sizes = new Map(files.map(({ path, sizeBytes }) => [path, sizeBytes]));
  // Memory that is new each time takes longer than the digest itself.
  const buffers = Array.from({ length: READS }, () => Buffer.allocUnsafe(CHUNK_BYTES));
  const digests = new Map<string, string>();
  const problems: { path: string; problem: string }[] = [];
  await forEachConcurrently(paths.entries(), READS, async ([index, path]) => {
    options.signal.throwIfAborted();
    const sizeBytes = sizes.get(path);
    if (sizeBytes === undefined || kinds[index] !== 'file' || sizesBytes[index] !== sizeBytes) return;
    const buffer = buffers.pop() ?? Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      digests.set(path, await sha256Of(join(tree, path), sizeBytes, buffer, options));
    } catch (error) {
      options.signal.throwIfAborted();
      problems.push({ path, problem: problemOf(error) });
    }
    buffers.push(buffer);
  });
  return { digests, problems };
}

/**
 * SHA-256 of a file in hexadecimal digits. If it is longer than expected, part of the excess is included, so that the digest differs.
 * @param buffer for its bytes, a part at a time
 * @throws system errors, and the reason of `signal`
 */
export async function sha256Of(
  file: string,
  sizeBytes: number,
  buffer: Buffer,
  { signal, onBytes }: Partial<ExamineOptions> = {},
): Promise<string> {
  return withOpen(file, READ_FLAGS, async (handle) => {
    const hash = createHash('sha256');
    for (let doneBytes = 0; ;) {
      signal?.throwIfAborted();
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0 || doneBytes > sizeBytes) return hash.digest('hex');
      doneBytes += bytesRead;
      hash.update(buffer.subarray(0, bytesRead));
      onBytes?.(bytesRead);
    }
  });
}
