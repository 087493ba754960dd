import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { READ_FLAGS } from '../../../lib/disk/own-file.ts';
import { withOpen } from '../../../lib/disk/read.ts';
import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { isTargetPath } from '../../../lib/paths/file-name.ts';
import { latestFirst } from '../../../lib/time/wrong-clock.ts';
import { keptAt } from '../../plan/retention.ts';
import { readStampedManifest } from '../inventory.ts';
import type { DirectoryLayout } from '../layout.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { publishedTree } from '../published-tree.ts';
import { digestOf, findCopies, type FindCopy, type HistoryEntry } from './history.ts';
import {
  changedMeanwhile,
  type FoundFiles,
  lostBytes,
  type OnBytes,
  placeOf,
  readKeptManifest,
  sizeOf,
} from './restore.ts';

/** One state of a target. */
export interface TargetState {
  /** Where it is, as below the directory. */
  readonly place: string;
  /** The folder of its files. */
  readonly tree: string;
  readonly manifest: Manifest;
  /** When it left the mirror, in milliseconds since the epoch; null for the one that is published. */
  readonly leftAtMs: number | null;
}

/**
 * The tree of the history that the mirror had at a time; null where it is not kept.
 * @param entries those of one target, by time
 * @param atMs milliseconds since the epoch; null for the latest that is kept
 * @throws MirrorError `history.damaged`, `disk.failed`
 */
export async function keptEntry(
  entries: readonly HistoryEntry[],
  atMs: number | null,
): Promise<{ readonly entry: HistoryEntry; readonly manifest: Manifest } | null> {
  const nowMs = Date.now();
  const byTime = latestFirst(nowMs);
  const [latest] = [...entries].sort((a, b) => byTime(a.atMs, b.atMs));
  const entry = atMs === null ? latest : keptAt(entries, atMs, nowMs);
  if (entry === undefined || entry === null) return null;
  const manifest = await readKeptManifest(entry);
  return atMs !== null && manifest.publishedAtMs > atMs ? null : { entry, manifest };
}

/**
 * The state of a target that the mirror had at a time, in the history or, where it did not change since, the one that is published;
 * null where neither is known to be.
 * @param atMs as for {@link keptEntry}, which null is left to
 * @param nowMs milliseconds since the epoch: of the time after it nobody knows
 * @throws MirrorError as {@link keptEntry}
 */
export async function stateAt(
  layout: DirectoryLayout,
  path: string,
  entries: readonly HistoryEntry[],
  atMs: number | null,
  nowMs: number,
): Promise<TargetState | null> {
  const kept = await keptEntry(entries, atMs);
  if (kept !== null) {
    const { entry, manifest } = kept;
    return { place: placeOf(entry), tree: entry.tree, manifest, leftAtMs: entry.atMs };
  }
  const published = atMs === null || atMs > nowMs ? null : await publishedState(layout, path);
  return published === null || published.manifest.publishedAtMs > (atMs ?? 0) ? null : published;
}

/** The state of a target that is published; null where it is not mirrored. @throws MirrorError `disk.failed` */
export async function publishedState(layout: DirectoryLayout, path: string): Promise<TargetState | null> {
  if (!isTargetPath(path)) return null;
  return onDisk('reading a manifest', async () => {
    const manifest = (await readStampedManifest(layout, path))?.manifest ?? null;
    if (manifest === null) return null;
    return { place: `mirror/${path}`, tree: publishedTree(layout, path), manifest, leftAtMs: null };
  });
}

/**
 * Finds the bytes of some files of a state, and reads all of them. A file that is not right there is taken from wherever else its
 * target's bytes are kept.
 * @param path the target, as below `mirror/`
 * @throws MirrorError `history.damaged` where some are nowhere, and the reason of `signal`
 */
export async function findFiles(
  layout: DirectoryLayout,
  path: string,
  { place, tree }: TargetState,
  files: readonly ManifestFile[],
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<FoundFiles> {
  const totalBytes = sizeOf(files);
  const sources = new Map<string, { readonly file: string }>();
  const lost: string[] = [];
  let findCopy: FindCopy | null = null;
  for (const { path: name, sha256, sizeBytes } of files) {
    signal.throwIfAborted();
    let file: string | null = join(tree, name);
    if ((await digestOf(file)) !== sha256) {
      findCopy ??= await findCopies(layout, path);
      file = await findCopy(sha256);
    }
    if (file === null) lost.push(name);
    else sources.set(name, { file });
    onBytes(sizeBytes, totalBytes);
  }
  if (lost.length > 0) throw lostBytes(place, lost);
  return { place, files, sources };
}

/** Bytes that are written at a time. */
const CHUNK_BYTES = 512 * 1024;

/**
 * Writes the bytes of a file that was found somewhere, and holds them against its SHA-256 once more.
 * @param write takes bytes, and may keep them no longer than it takes
 * @throws MirrorError `history.damaged` where they changed meanwhile: what was written is not the file; `disk.failed`
 */
export async function writeFound(
  { place, files, sources }: FoundFiles,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  for (const { path, sha256, sizeBytes } of files) {
    const hash = createHash('sha256');
    let total = 0;
    await onDisk(`reading ${JSON.stringify(path)}`, () =>
      withOpen(sources.get(path)?.file ?? '', READ_FLAGS, async (handle) => {
        const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
        for (;;) {
          const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
          if (bytesRead === 0) return;
          total += bytesRead;
          // A file that grows as fast as it is read has no end.
          if (total > sizeBytes) throw changedMeanwhile(place, path);
          const bytes = buffer.subarray(0, bytesRead);
          hash.update(bytes);
          await write(bytes);
        }
      }),
    );
    if (hash.digest('hex') !== sha256) throw changedMeanwhile(place, path);
  }
}

/** The files of a tree that a path means. */
export type Chosen =
  | { readonly kind: 'file'; readonly files: readonly ManifestFile[] }
  /** All below a folder. */
  | { readonly kind: 'folder'; readonly files: readonly ManifestFile[] };

/**
 * The files of a tree that a person means by a path: a file or, else, all below a folder. A file is also found by the same path in
 * another Unicode form, which nobody sees it by, where there is but one.
 * @param paths the ways in which the path can be read, below the tree; the first that leads to something counts
 * @returns null where none does
 */
export function chooseFiles(files: readonly ManifestFile[], paths: readonly string[]): Chosen | null {
  for (const path of paths) {
    const exact = files.filter((file) => file.path === path);
    if (exact.length > 0) return { kind: 'file', files: exact };
    const below = path === '' ? [] : files.filter((file) => file.path.startsWith(`${path}/`));
    if (below.length > 0) return { kind: 'folder', files: below };
  }
  for (const path of paths) {
    const form = path.normalize('NFC');
    const same = files.filter((file) => file.path.normalize('NFC') === form);
    if (same.length === 1) return { kind: 'file', files: same };
  }
  return null;
}
