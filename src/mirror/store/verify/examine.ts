import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { doInThread, withStopFlag } from '../../file-work/pool.ts';
import { kindOf, problemOf, WALKED_KINDS, type Walked } from '../../file-work/walk.ts';
import { forEachConcurrently } from '../../../lib/concurrency/concurrency.ts';
import { unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { type Difference, differencesOf, foldersOf, type FoundEntry, type FoundFile } from './drift.ts';
import type { ManifestFile } from '../manifest.ts';
import { type DirectoryLayout, manifestPath } from '../layout.ts';
import { publishedManifest } from '../inventory.ts';
import type { Disk, MirrorStore } from '../disk.ts';
import { publishedTree } from '../published-tree.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';

/** How closely a tree is looked at: `facts` by `lstat` alone, `bytes` also by the SHA-256 of every file. */
export type ExamineDepth = 'facts' | 'bytes';

/** How a tree is examined. */
export interface ExamineOptions {
  readonly depth: ExamineDepth;
  /** Ends the examination; its reason is thrown. */
  readonly signal: AbortSignal;
  /** Receives the number of bytes as they are read. */
  readonly onBytes?: (bytes: number) => void;
  /** Digests of files that an earlier examination of the same tree read; taken on trust only where they agree. */
  readonly known?: Map<string, string>;
}

export interface Examination {
  /** Whether no folder stands where the tree belongs; then there are no differences to tell. */
  readonly isGone: boolean;
  readonly differences: readonly Difference[];
}

/** Files that are read at a time: while one is hashed, others are on their way from the disk. */
const READS = 16;

/** Bytes of a file that are in memory at a time. */
const CHUNK_BYTES = 512 * 1024;

/**
 * Holds a tree against the files of its manifest. Follows no link, changes nothing, and is stopped by no single file: what
 * cannot be read is a difference. A tree that changes meanwhile may look like a mixture.
 * @param tree where the tree stands; what leads there is not looked at
 * @param files the files of its manifest
 * @throws the reason of `signal`
 */
export async function examineTree(
  tree: string,
  files: readonly ManifestFile[],
  options: ExamineOptions,
): Promise<Examination> {
  const walked = await withStopFlag(options.signal, (stop) => doInThread('walk', { tree, stop }));
  const { root } = walked;
  const found = [...foundIn(walked)];
  if (root?.kind === 'gone') return { isGone: true, differences: [] };
  if (root !== null) {
    return { isGone: false, differences: [{ path: '.', kind: 'unreadable', problem: root.problem }] };
  }
  if (options.depth === 'bytes')
    await addDigests(tree, found, new Map(files.map((file) => [file.path, file])), options);
  options.signal.throwIfAborted();
  return { isGone: false, differences: differencesOf(files, found) };
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
): Promise<Examination> {
  for (const folder of foldersOf(path)) {
    const found = await unlessMissing(lstat(join(layout.mirror, folder))).catch(() => null);
    if (found?.isSymbolicLink() === true) return { isGone: true, differences: [] };
  }
  return examineTree(publishedTree(layout, path), files, options);
}

/** How a published tree differs from its manifest by `lstat`; `changing` when the target is published at the same time. */
export async function findDrift(
  { layout, activity }: Pick<Disk, 'layout' | 'activity'>,
  path: string,
  signal: AbortSignal,
): Promise<readonly Difference[] | 'changing'> {
  const before = activity.stateOf(path);
  if (before === null) return 'changing';
  const manifest = await publishedManifest(layout, path);
  if (manifest === null) return [];
  const found = await examinePublished(layout, path, manifest.files, { depth: 'facts', signal });
  if (activity.stateOf(path) !== before) return 'changing';
  return found.isGone ? [{ path: '.', kind: 'missing' }] : found.differences;
}

/** The target of this instance that a path below the directory belongs to; null for none. */
export async function targetOf(
  { layout, linked, inventory }: Pick<MirrorStore, 'layout' | 'linked' | 'inventory'>,
  path: string,
): Promise<string | null> {
  const target = await targetAt({ layout, linked }, path);
  return target === null || inventory.isOthers(target) ? null : target;
}

async function targetAt(
  { layout, linked }: Pick<Disk, 'layout' | 'linked'>,
  path: string,
): Promise<string | null> {
  const [top, ...names] = path.split('/');
  if (top === 'trees') return linked.get(names[1] ?? '') ?? null;
  for (let folder = names.join('/'); folder !== '.' && folder !== ''; folder = dirname(folder)) {
    // What cannot even be asked about, as its name is too long with the manifest's ending, is no target.
    const found = await lstat(manifestPath(layout, folder)).catch(() => null);
    if (found !== null) return folder;
  }
  return null;
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

function factsOf(stats: Stats): Pick<FoundFile, 'sizeBytes' | 'mode' | 'mtimeMs'> {
  return { sizeBytes: stats.size, mode: stats.mode & 0o7777, mtimeMs: Math.round(stats.mtimeMs) };
}

/** Reads the files whose size is as it should be; with another size their bytes differ anyway. */
async function addDigests(
  tree: string,
  found: FoundEntry[],
  wanted: ReadonlyMap<string, ManifestFile>,
  options: ExamineOptions,
): Promise<void> {
  const buffers = Array.from({ length: READS }, () => Buffer.allocUnsafe(CHUNK_BYTES));
  await forEachConcurrently(found.keys(), READS, async (index) => {
    options.signal.throwIfAborted();
    const entry = found[index];
    if (entry?.kind !== 'file') return;
    const file = wanted.get(entry.path);
    if (file?.sizeBytes !== entry.sizeBytes) return;
    const buffer = buffers.pop() ?? Buffer.allocUnsafe(CHUNK_BYTES);
    found[index] = await digested(join(tree, entry.path), entry.path, file.sha256, buffer, options);
    buffers.push(buffer);
  });
}

async function digested(
  absolutePath: string,
  path: string,
  wantedSha256: string,
  buffer: Buffer,
  options: ExamineOptions,
): Promise<FoundEntry> {
  try {
    const handle = await open(absolutePath, READ_FLAGS);
    try {
      const stats = await handle.stat();
      const kind = kindOf(stats);
      if (kind !== 'file') return { kind, path };
      const identity = `${stats.ino} ${stats.size} ${stats.mtimeMs}`;
      const known = options.known?.get(identity);
      if (known === wantedSha256) return { kind, path, ...factsOf(stats), sha256: known };
      const sha256 = await digestOf(handle, stats.size, buffer, options);
      options.known?.set(identity, sha256);
      return { kind, path, ...factsOf(stats), sha256 };
    } finally {
      await handle.close();
    }
  } catch (error) {
    options.signal.throwIfAborted();
    return { kind: 'unreadable', path, problem: problemOf(error) };
  }
}

async function digestOf(
  handle: FileHandle,
  sizeBytes: number,
  buffer: Buffer,
  options: ExamineOptions,
): Promise<string> {
  const hash = createHash('sha256');
  let total = 0;
  for (;;) {
    options.signal.throwIfAborted();
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
    hash.update(buffer.subarray(0, bytesRead));
    options.onBytes?.(bytesRead);
    total += bytesRead;
    // Where all is read that the file had, a part of the buffer left free means that it did not grow.
    if (bytesRead === 0 || (total === sizeBytes && bytesRead < buffer.length)) return hash.digest('hex');
  }
}
