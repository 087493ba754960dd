import { createHash } from 'node:crypto';
import { lstat, open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { doInThread } from '../../file-work/pool.ts';
import { problemOf, WALKED_KINDS, type Walked } from '../../file-work/trees.ts';
import type { DriftSummary } from '../../plan/record.ts';
import type { MirrorStore } from '../disk.ts';
import { manifestStamp, readManifestFile } from '../inventory.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { byCodeUnits, foldersWith, type Manifest, type ManifestFile } from '../manifest.ts';
import { publishedTree } from '../published-tree.ts';
import { readJournal } from '../publish/journal.ts';
import { otherInstances } from '../shards.ts';

/** The kinds of entries at a path: `special` is anything that is no file, folder or symbolic link (inode(7)). */
export type EntryKind = 'file' | 'folder' | 'link' | 'special';

/** An entry of a tree; links are not followed. Paths are below the tree, with slashes. */
export type FoundEntry =
  | FoundFile
  | { readonly kind: Exclude<EntryKind, 'file'>; readonly path: string }
  /** Something that could not be looked at; with everything below it, if it is a folder. */
  | { readonly kind: 'unreadable'; readonly path: string; readonly problem: string };

/** A regular file as it was found. */
export interface FoundFile {
  readonly kind: 'file';
  readonly path: string;
  readonly sizeBytes: number;
  /** Permission bits, as `chmod` takes them. */
  readonly mode: number;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** SHA-256 in hexadecimal digits; null where the bytes were not read. */
  readonly sha256: string | null;
}

/** The ways in which a file can differ from its manifest. */
export type Modification = 'size' | 'mode' | 'mtime' | 'bytes' | 'not a file';

/** One way in which a tree is not what its manifest says. */
export type Difference =
  | { readonly path: string; readonly kind: 'added'; readonly entry: EntryKind }
  | { readonly path: string; readonly kind: 'missing' }
  | { readonly path: string; readonly kind: 'modified'; readonly what: readonly Modification[] }
  /** Could not be compared; `problem` is the system's reason. */
  | { readonly path: string; readonly kind: 'unreadable'; readonly problem: string };

/**
 * Compares the entries found in a tree with the files of its manifest. Folders are implied by files: a folder that no file
 * needs counts as added if it is empty; otherwise its contents are reported.
 * @returns the differences, sorted by path
 */
export function differencesOf(
  files: readonly ManifestFile[],
  found: readonly FoundEntry[],
): readonly Difference[] {
  const foundAt = new Map(found.map((entry) => [entry.path, entry]));
  const wanted = new Set(files.map((file) => file.path));
  const needed = foldersWith([...wanted, ...foundAt.keys()]);
  const isUnreadable = (path: string): boolean => foundAt.get(path)?.kind === 'unreadable';
  const differences: Difference[] = [];
  for (const file of files) {
    const { path } = file;
    const entry = foundAt.get(path);
    if (entry === undefined) {
      if (!foldersOf(path).some(isUnreadable)) differences.push({ path, kind: 'missing' });
    } else if (entry.kind !== 'unreadable') {
      const what = modificationsOf(file, entry);
      if (what.length > 0) differences.push({ path, kind: 'modified', what });
    }
  }
  for (const entry of found) {
    const { path, kind } = entry;
    if (kind === 'unreadable') differences.push({ path, kind, problem: entry.problem });
    else if (!wanted.has(path) && !(kind === 'folder' && needed.has(path)))
      differences.push({ path, kind: 'added', entry: kind });
  }
  return differences.sort((a, b) => byCodeUnits(a.path, b.path));
}

function modificationsOf(
  file: ManifestFile,
  entry: Exclude<FoundEntry, { kind: 'unreadable' }>,
): Modification[] {
  if (entry.kind !== 'file') return ['not a file'];
  const what: Modification[] = [];
  if (entry.sizeBytes !== file.sizeBytes) what.push('size');
  if (entry.mode !== file.mode) what.push('mode');
  if (entry.mtimeMs !== file.mtimeMs) what.push('mtime');
  if (entry.sha256 !== null && entry.sha256 !== file.sha256) what.push('bytes');
  return what;
}

/** The folders that a path lies in, the nearest last. */
export function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let slash = path.indexOf('/'); slash >= 0; slash = path.indexOf('/', slash + 1))
    folders.push(path.slice(0, slash));
  return folders;
}

/** Counts differences; what cannot be read counts as modified. */
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

/** Whether a file may be taken for what its manifest says, by the differences of its tree: neither it nor a folder around it is among them. */
export function trustOf(differences: readonly Difference[]): (path: string) => boolean {
  const suspects = new Set(differences.map(({ path }) => path));
  if (suspects.has('.')) return () => false;
  return (path) => ![path, ...foldersOf(path)].some((each) => suspects.has(each));
}

/** Paths of what someone added to a tree; null where that is unknown, as something beside its files cannot be looked into. */
export function foreignIn(
  differences: readonly Difference[],
  files: readonly ManifestFile[],
): readonly string[] | null {
  const own = new Set(files.map(({ path }) => path));
  if (differences.some(({ kind, path }) => kind === 'unreadable' && !own.has(path))) return null;
  return differences.filter(({ kind }) => kind === 'added').map(({ path }) => path);
}

/** How closely a tree is looked at: `facts` by `lstat` alone, `bytes` also by the SHA-256 of every file. */
export type ExamineDepth = 'facts' | 'bytes';

/** How a tree is examined. */
export interface ExamineOptions {
  readonly depth: ExamineDepth;
  /** Ends the examination; its reason is thrown. */
  readonly signal: AbortSignal;
  /** Receives the number of bytes as they are read. */
  readonly onBytes?: (bytes: number) => void;
}

/** The differences of a tree that is not there. */
const GONE: readonly Difference[] = [{ path: '.', kind: 'missing' }];

/** Whether no folder stands where the tree belongs. */
export function isGone([first]: readonly Difference[]): boolean {
  return first?.path === '.' && first.kind === 'missing';
}

/**
 * Holds a tree against the files of its manifest. Follows no link, changes nothing, and is stopped by no single file: what
 * cannot be read is a difference. A tree that changes at the same time may look like a mixture.
 * @param tree where the tree stands; what leads there is not looked at
 * @param files the files of its manifest
 * @throws the reason of `signal`
 */
export async function examineTree(
  tree: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<readonly Difference[]> {
  const walked = await doInThread('walk', tree, options.signal);
  const { root } = walked;
  if (root?.kind === 'gone') return GONE;
  if (root !== null) return [{ path: '.', kind: 'unreadable', problem: root.problem }];
  const found = [...foundIn(walked)];
  if (options.depth === 'bytes') await addDigests(tree, found, files, options);
  options.signal.throwIfAborted();
  return differencesOf(files, found);
}

/**
 * As {@link examineTree}, for a target; one that can only be reached through a link is gone, as the link may lead anywhere.
 * @param path `<repository>/<branch>`, below `mirror/`
 */
export async function examinePublished(
  layout: DirectoryLayout,
  path: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<readonly Difference[]> {
  for (const folder of foldersOf(path)) {
    const found = await unlessMissing(lstat(join(layout.mirror, folder))).catch(() => null);
    if (found?.isSymbolicLink() === true) return GONE;
  }
  return examineTree(publishedTree(layout, path), files, options);
}

/** A published target, as it was examined; `manifest` is null where it cannot be understood, then `problem` says why. */
export interface ExaminedTarget {
  readonly manifest: Manifest | null;
  readonly problem: string | null;
  readonly differences: readonly Difference[];
  /** When the look began that this is from. Milliseconds since the epoch. */
  readonly lookedAtMs: number;
}

/** A tree that differs while it is published is looked at again, at most so many times, with a pause in between, in milliseconds. */
const MOST_LOOKS = 100;
const LOOK_PAUSE_MS = 100;

/**
 * Compares a published tree with its manifest, also while a process publishes it: a publish writes its journal, makes its moves, the
 * manifest among them, removes emptied folders and then the journal. So a difference that it makes is seen while the journal is there, or
 * else with another manifest afterwards. The journal is looked for before the tree, too: it may be gone once the tree was read.
 * @returns null where the target has no manifest
 * @throws MirrorError `disk.*`, and the reason of `signal`
 */
export async function examineTarget(
  layout: DirectoryLayout,
  path: string,
  options: ExamineOptions,
): Promise<ExaminedTarget | null> {
  for (let looks = 1; ; looks += 1) {
    const lookedAtMs = Date.now();
    const found = await onDisk('reading a manifest', () => readManifestFile(manifestPath(layout, path)));
    if (found === null) return null;
    const { manifest, problem, stamp } = found;
    if (manifest === null) return { manifest, problem, differences: [], lookedAtMs };
    const wasChanging = (await pathsInChange(layout)).has(path);
    const differences = await examinePublished(layout, path, manifest.files, options);
    const isChanging = async (): Promise<boolean> =>
      wasChanging || (await pathsInChange(layout)).has(path) || (await manifestStamp(layout, path)) !== stamp;
    if (differences.length === 0 || looks === MOST_LOOKS || !(await isChanging()))
      return { manifest, problem, differences, lookedAtMs };
    await sleep(LOOK_PAUSE_MS, undefined, { signal: options.signal });
  }
}

/** How a published tree differs from its manifest by `lstat`. @throws as {@link examineTarget} */
export async function findDrift(
  layout: DirectoryLayout,
  path: string,
  signal: AbortSignal,
): Promise<Pick<ExaminedTarget, 'differences' | 'lookedAtMs'>> {
  const nothing = { differences: [], lookedAtMs: Date.now() };
  return (await examineTarget(layout, path, { depth: 'facts', signal })) ?? nothing;
}

/** The paths below `mirror/` that a publish has begun to change and not yet brought to its end. */
export async function pathsInChange(layout: DirectoryLayout): Promise<ReadonlySet<string>> {
  const paths = new Set<string>();
  for (const { staging } of [layout, ...(await otherInstances(layout))]) {
    for (const name of await readdir(staging).catch(() => [])) {
      const journal = await readJournal(join(staging, name)).catch(() => null);
      for (const path of journal?.targets ?? []) paths.add(path);
    }
  }
  return paths;
}

/** The target of this instance that a path below the directory belongs to; null for none. */
export async function targetOf(
  { layout, linked, inventory }: Pick<MirrorStore, 'layout' | 'linked' | 'inventory'>,
  path: string,
): Promise<string | null> {
  const [top, ...names] = path.split('/');
  const target = top === 'trees' ? linked.get(names[1] ?? '') : await targetAround(layout, names.join('/'));
  return target === undefined || inventory.isOthers(target) ? null : target;
}

async function targetAround(layout: DirectoryLayout, path: string): Promise<string | undefined> {
  for (let folder = path; folder !== '.' && folder !== ''; folder = dirname(folder)) {
    // What cannot even be asked about, as its name is too long with the manifest's ending, is no target.
    if ((await lstat(manifestPath(layout, folder)).catch(() => null)) !== null) return folder;
  }
  return undefined;
}

function* foundIn(walked: Walked): Generator<FoundEntry> {
  const { sizesBytes, modes, mtimesMs } = walked;
  for (const [index, path] of walked.paths.entries()) {
    const kind = WALKED_KINDS[walked.kinds[index] ?? 0] ?? 'special';
    const [sizeBytes = 0, mode = 0, mtimeMs = 0] = [sizesBytes[index], modes[index], mtimesMs[index]];
    if (kind === 'file') yield { kind, path, sizeBytes, mode, mtimeMs, sha256: null };
    else yield { kind, path };
  }
  for (const { path, problem } of walked.problems) yield { kind: 'unreadable', path, problem };
}

/** Files that are read at a time: while one is hashed, others are on their way from the disk. */
const READS = 16;

/** Bytes of a file that are in memory at a time. */
const CHUNK_BYTES = 512 * 1024;

/** Reads the files whose size is as it should be; with another size their bytes differ anyway. */
async function addDigests(
  tree: string,
  found: FoundEntry[],
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<void> {
  const sizes = new Map(files.map(({ path, sizeBytes }) => [path, sizeBytes]));
  const buffers = Array.from({ length: READS }, () => Buffer.allocUnsafe(CHUNK_BYTES));
  await forEachConcurrently(found.keys(), READS, async (index) => {
    options.signal.throwIfAborted();
    const entry = found[index];
    if (entry?.kind !== 'file' || sizes.get(entry.path) !== entry.sizeBytes) return;
    const { path } = entry;
    const buffer = buffers.pop() ?? Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      found[index] = { ...entry, sha256: await sha256Of(join(tree, path), entry.sizeBytes, buffer, options) };
    } catch (error) {
      options.signal.throwIfAborted();
      found[index] = { kind: 'unreadable', path, problem: problemOf(error) };
    }
    buffers.push(buffer);
  });
}

/**
 * The digest of a file; of one that grows while it is read, that of a part beyond its size: it is another one in any case.
 * @throws system errors, and the reason of `signal`
 */
async function sha256Of(
  file: string,
  sizeBytes: number,
  buffer: Buffer,
  { signal, onBytes }: ExamineOptions,
): Promise<string> {
  const handle = await open(file, READ_FLAGS);
  try {
    const hash = createHash('sha256');
    for (let doneBytes = 0; ;) {
      signal.throwIfAborted();
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0 || doneBytes > sizeBytes) return hash.digest('hex');
      doneBytes += bytesRead;
      hash.update(buffer.subarray(0, bytesRead));
      onBytes?.(bytesRead);
    }
  } finally {
    await handle.close();
  }
}
