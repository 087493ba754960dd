import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, mkdir, open, readdir, rename, rm, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { onDisk, unlessMissing } from '../model/disk-errors.ts';
import { MirrorError } from '../model/errors.ts';
import type { Manifest } from '../model/manifest.ts';
import { syncDirectory } from './durable.ts';
import { examineTree } from './examine.ts';
import type { HistoryEntry } from './history.ts';
import { readManifest } from './manifest-file.ts';
import { bindNativeCalls } from './native.ts';
import type { MirrorStore } from './store.ts';

/** A tree of the history that was found to be whole. */
export interface WholeEntry {
  readonly entry: HistoryEntry;
  readonly manifest: Manifest;
}

/**
 * Holds a tree of the history against its manifest, every byte of it.
 * @throws MirrorError `history.damaged`, `disk.failed`
 */
export async function checkEntry(entry: HistoryEntry, signal: AbortSignal): Promise<WholeEntry> {
  const name = `history/${entry.path}/${entry.name}`;
  const manifest = await onDisk('reading a manifest', () => readManifest(entry.manifest));
  if (manifest === null || !entry.treePresent) {
    throw new MirrorError(
      'history.damaged',
      `${name} has no ${manifest === null ? 'manifest that can be read' : 'tree'}.`,
      { hint: 'Look at the folder by hand; `history list` shows what else is kept.' },
    );
  }
  const { differences } = await examineTree(entry.tree, manifest.files, { depth: 'bytes', signal });
  const [first] = differences;
  if (first !== undefined) {
    throw new MirrorError(
      'history.damaged',
      `${name} is not what its manifest says: ${differences.length} differences, the first at ${JSON.stringify(first.path)} (${first.kind}).`,
      { hint: 'Someone changed it, or the disk did. Its other files can be copied by hand.' },
    );
  }
  return { entry, manifest };
}

/**
 * Copies a tree into a folder of its own, which appears whole or not at all.
 * @param folder must not exist, or be empty
 * @throws MirrorError `history.occupied`, `disk.*`
 */
export async function restoreInto(folder: string, { entry, manifest }: WholeEntry): Promise<void> {
  await onDisk(`restoring into ${folder}`, async () => {
    const present = await unlessMissing(readdir(folder));
    if (present !== null && present.length > 0) {
      throw new MirrorError('history.occupied', `${folder} is not empty.`, {
        hint: 'Give a folder that does not exist yet.',
      });
    }
    await mkdir(dirname(folder), { recursive: true });
    const partial = join(dirname(folder), `.${basename(folder)}.${randomUUID()}`);
    try {
      await copyTree(entry.tree, partial, manifest);
      await rename(partial, folder);
      await syncDirectory(dirname(folder));
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
  });
}

/** Copies the files of a tree, sharing their blocks where the file system can, and flushes them. */
async function copyTree(from: string, to: string, { files }: Manifest): Promise<void> {
  await mkdir(to);
  for (const { path, mtimeMs } of files) {
    const copy = join(to, path);
    await mkdir(dirname(copy), { recursive: true });
    await copyFile(join(from, path), copy, constants.COPYFILE_FICLONE);
    await utimes(copy, new Date(mtimeMs), new Date(mtimeMs));
  }
  const folder = await open(to, 'r');
  try {
    await bindNativeCalls().syncFileSystem(folder.fd);
  } finally {
    await folder.close();
  }
}

/**
 * Brings a tree back into the mirror, where its target is mirrored no longer. Its files are hard links: nothing is copied.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `history.occupied`, `disk.*`
 */
export async function restoreToMirror(
  store: MirrorStore,
  { entry, manifest }: WholeEntry,
  nowMs: number,
): Promise<void> {
  const isMirrored = (await store.published()).some((tree) => tree.path === entry.path && tree.treePresent);
  if (isMirrored) {
    throw new MirrorError('history.occupied', `${entry.path} is mirrored now, as the service has it.`, {
      hint: 'Restore into another folder: --to FOLDER.',
    });
  }
  const stage = await store.stage(entry.path);
  try {
    await stage.linkFrom(
      entry.tree,
      manifest.files.map((file) => file.path),
    );
    const restored = { ...manifest, restoredAtMs: nowMs, publishedAtMs: nowMs };
    await store.publish(stage, entry.path, restored, { rewritten: [], isDamaged: false });
  } finally {
    await stage.discard();
  }
}
