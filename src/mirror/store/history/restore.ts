import { randomUUID } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { chmod, copyFile, mkdir, open, readdir, rename, rm, utimes } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { type Difference, examineTree, trustOf } from '../verify/examine.ts';
import { counted } from '../../../lib/text/humanize.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';
import { syncDirectory } from '../../../lib/disk/durable.ts';
import { digestOf, findCopies, type HistoryEntry } from './history.ts';
import type { DirectoryLayout } from '../layout.ts';
import { readManifestFile } from '../inventory.ts';
import { foldName } from '../../../lib/paths/safe-path.ts';
import { bindNativeCalls } from '../../../lib/native/file-calls.ts';
import type { MirrorStore } from '../disk.ts';
import { publishStage } from '../publish/publish.ts';
import { discardStage } from '../publish/journal.ts';
import { linkFrom, type Stage, stageFile, stageOn } from '../publish/stage.ts';

/** Files of a kept state that can be copied, as their bytes were found. */
export interface FoundFiles {
  /** Where the state is kept, as below the directory. */
  readonly place: string;
  readonly files: readonly ManifestFile[];
  /** Where the bytes of each file are, by its path. */
  readonly sources: ReadonlyMap<string, { readonly file: string }>;
}

/** Where the bytes of a file are; where `isLinkable`, with the right time and mode, too. */
interface Source {
  readonly file: string;
  readonly isLinkable: boolean;
}

/** By the paths of files. */
type Sources = ReadonlyMap<string, Source>;

/** A tree of the history of which every byte is to be had. */
export interface WholeEntry extends FoundFiles {
  readonly entry: HistoryEntry;
  readonly manifest: Manifest;
  readonly sources: Sources;
}

/** Receives the bytes of each part that was read or copied, and the bytes of all parts. */
export type OnBytes = (bytes: number, totalBytes: number) => void;

/** The bytes of some files together. */
export function sizeOf(files: readonly ManifestFile[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/** Where a tree of the history is, as below the directory. */
export function placeOf({ path, name }: HistoryEntry): string {
  return `history/${path}/${name}`;
}

/** The inventory of a tree of the history, whether that is there or not. @throws MirrorError `history.damaged`, `disk.failed` */
export async function manifestOfEntry(entry: HistoryEntry): Promise<Manifest> {
  const found = await onDisk('reading a manifest', () => readManifestFile(entry.manifest));
  const { manifest = null, problem = 'it is not there' } = found ?? {};
  if (manifest !== null) return manifest;
  throw unusable(`The manifest of ${placeOf(entry)} cannot be used: ${problem ?? ''}.`);
}

/** As {@link manifestOfEntry}. @throws MirrorError `history.damaged` also where the tree is not there */
export async function readKeptManifest(entry: HistoryEntry): Promise<Manifest> {
  const manifest = await manifestOfEntry(entry);
  if (entry.treePresent) return manifest;
  throw unusable(`${placeOf(entry)} has no tree.`);
}

function unusable(message: string): MirrorError {
  return new MirrorError('history.damaged', message, {
    hint: `Look at the folder by hand; \`${ownCommand('history list')}\` shows what else is kept.`,
  });
}

/**
 * Holds a tree of the history against its manifest, every byte of it. A file that is not right, such as one whose link in the
 * mirror someone edited, is taken from wherever else its target's bytes are kept.
 * @throws MirrorError `history.damaged`, `disk.failed`
 */
export async function checkEntry(
  layout: DirectoryLayout,
  entry: HistoryEntry,
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<WholeEntry> {
  const place = placeOf(entry);
  const manifest = await readKeptManifest(entry);
  const totalBytes = sizeOf(manifest.files);
  const differences = await examineTree(entry.tree, manifest.files, {
    depth: 'bytes',
    signal,
    onBytes: (bytes) => onBytes(bytes, totalBytes),
  });
  const { sources, lost } = await findSources(layout, entry.path, entry.tree, manifest.files, differences);
  if (lost.length > 0) throw lostBytes(place, lost);
  return { place, files: manifest.files, entry, manifest, sources };
}

/**
 * Finds the bytes of a tree's files: in the tree itself, or else wherever the bytes of its target are kept.
 * @param differences of the tree, as every byte of it was read
 * @returns also the paths of files whose bytes are nowhere on this disk
 */
export async function findSources(
  layout: DirectoryLayout,
  target: string,
  tree: string,
  files: readonly ManifestFile[],
  differences: readonly Difference[],
): Promise<{ readonly sources: Sources; readonly lost: readonly string[] }> {
  const isTrusted = trustOf(differences);
  const findCopy = await findCopies(layout, target);
  const sources = new Map<string, Source>();
  const lost: string[] = [];
  for (const { path, sha256 } of files) {
    const isLinkable = isTrusted(path);
    const file = isLinkable ? join(tree, path) : await findCopy(sha256);
    if (file === null) lost.push(path);
    else sources.set(path, { file, isLinkable });
  }
  return { sources, lost };
}

/**
 * Copies the files into a stage that are not right in their tree.
 * @returns the files of the manifest, and the paths of those that were copied
 */
export async function stageCopies(
  store: MirrorStore,
  stage: Stage,
  manifest: Manifest,
  sources: Sources,
): Promise<{ readonly files: ManifestFile[]; readonly copied: readonly string[] }> {
  const files: ManifestFile[] = [];
  const copied: string[] = [];
  for (const file of manifest.files) {
    const { path, mtimeMs, workbook } = file;
    const source = sources.get(path);
    if (source?.isLinkable === true) files.push(file);
    else {
      const bytes = createReadStream(source?.file ?? '');
      const copy = await stageFile(stage, path, mtimeMs, bytes, store.onProgress);
      files.push({ ...copy, ...(workbook === undefined ? {} : { workbook }) });
      copied.push(path);
    }
  }
  return { files, copied };
}

/** The error for files whose bytes were found nowhere. */
export function lostBytes(place: string, [first, ...others]: readonly string[]): MirrorError {
  const count = counted(others.length + 1, 'file');
  return new MirrorError(
    'history.damaged',
    `${place} is not what its manifest says: the bytes of ${count} are nowhere on this disk, the first is ${JSON.stringify(first)}.`,
    { hint: 'Someone or the disk changed it. Its other files can be copied by hand.' },
  );
}

/**
 * Copies files into a folder of their own, which appears whole or not at all. Until every copy was checked nobody else can read it.
 * @param folder must not exist, or be empty
 * @throws MirrorError `history.occupied`, `history.damaged`, `disk.*`, and the reason of `signal`
 */
export async function restoreInto(
  folder: string,
  found: FoundFiles,
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<void> {
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
      await mkdir(partial, { mode: 0o700 });
      const tree = join(partial, 'tree');
      await copyFiles(tree, found, signal, onBytes);
      await rename(tree, folder);
      await syncDirectory(dirname(folder));
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  });
}

/**
 * Copies files, sharing their blocks where the file system can, and flushes them. Each copy is read: who owns the
 * history may have put something else into a file's place since it was looked at, a link to what only this user may read above all.
 */
async function copyFiles(
  to: string,
  { place, files, sources }: FoundFiles,
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<void> {
  const totalBytes = sizeOf(files);
  await mkdir(to);
  for (const { path, sha256, sizeBytes, mtimeMs, mode } of files) {
    signal.throwIfAborted();
    const copy = join(to, path);
    await mkdir(dirname(copy), { recursive: true });
    await copyFile(sources.get(path)?.file ?? '', copy, constants.COPYFILE_FICLONE);
    if ((await digestOf(copy)) !== sha256) throw changedMeanwhile(place, path);
    onBytes(sizeBytes, totalBytes);
    await chmod(copy, mode);
    await utimes(copy, new Date(mtimeMs), new Date(mtimeMs));
  }
  const folder = await open(to, 'r');
  try {
    await bindNativeCalls().syncFileSystem(folder.fd);
  } finally {
    await folder.close();
  }
}

/** The error for a file that is not what it was when it was looked at. */
export function changedMeanwhile(place: string, file: string): MirrorError {
  const where = JSON.stringify(`${place}/${file}`);
  return new MirrorError('history.damaged', `Someone changed ${where} while it was copied.`, {
    hint: 'What was copied so far is of no use; try again.',
  });
}

/** A published tree; one that another instance mirrors is taken for present. */
interface TreeInPlace {
  readonly path: string;
  readonly branch: string;
  readonly treePresent?: boolean;
}

/** Whether a published tree stands at a path, around it or below it, or is the same target elsewhere. */
function isInTheWay(
  { path: treePath, branch: treeBranch, treePresent = true }: TreeInPlace,
  repositoryId: string,
  path: string,
  { repository, branch }: Manifest,
): boolean {
  const [one, other] = [foldName(treePath), foldName(path)];
  const meets = one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
  const isSameTarget = repositoryId === repository.id && treeBranch === branch;
  return (meets && (treePresent || one !== other)) || (isSameTarget && treePresent);
}

/**
 * Brings a tree back into the mirror, where its target is mirrored no longer. Its files are hard links: nothing is copied.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `history.occupied`, `disk.*`
 */
export async function restoreToMirror(
  store: MirrorStore,
  { entry, manifest, sources }: WholeEntry,
  nowMs: number,
): Promise<void> {
  await store.lock.check();
  const { published, others } = await store.inventory.read();
  const occupant =
    published.find((tree) => isInTheWay(tree, tree.repository.id, entry.path, manifest)) ??
    others.find((tree) => isInTheWay(tree, tree.repositoryId, entry.path, manifest));
  if (occupant !== undefined) {
    throw new MirrorError(
      'history.occupied',
      `${entry.path} cannot be restored into the mirror, where ${occupant.path} stands, which the service has.`,
      { hint: 'Restore into another folder: --to FOLDER.' },
    );
  }
  const stage = await stageOn(store, entry.path);
  try {
    const { files } = await stageCopies(store, stage, manifest, sources);
    const linked = files.map(({ path }) => path).filter((path) => sources.get(path)?.isLinkable === true);
    await linkFrom(stage, entry.tree, linked, store.onProgress);
    const restored = { ...manifest, files, restoredAtMs: nowMs, publishedAtMs: nowMs };
    await publishStage(store, stage, { manifest: restored, before: null });
  } finally {
    await discardStage(store, stage);
  }
}
