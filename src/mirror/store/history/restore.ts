import { createHash, randomUUID } from 'node:crypto';
import { chmod, constants, copyFile, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { syncDirectory } from '../../../lib/disk/durable.ts';
import { READ_FLAGS } from '../../../lib/disk/own-file.ts';
import { withOpen } from '../../../lib/disk/read.ts';
import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../../lib/native/file-calls.ts';
import { foldName } from '../../../lib/paths/safe-path.ts';
import { counted } from '../../../lib/text/humanize.ts';
import { type Published, treeKey } from '../../plan/record.ts';
import type { MirrorStore } from '../disk.ts';
import type { DirectoryLayout } from '../layout.ts';
import type { Manifest, ManifestFile } from '../manifest.ts';
import { discardStage } from '../publish/journal.ts';
import { publishStage } from '../publish/publish.ts';
import { linkFiles, makeParents, openStage, setTime, type Stage, stageIn } from '../publish/stage.ts';
import { examineTree, trustOf } from '../verify/examine.ts';
import { digestOf, findCopies, type HistoryEntry } from './history.ts';

/** One state of a target: from the history, or the published one. */
export interface TargetState {
  /** The target's path below `mirror/`. */
  readonly path: string;
  /** Its path below the directory. */
  readonly place: string;
  /** The folder of its files, which may lack some of them. */
  readonly tree: string;
  readonly manifest: Manifest;
  /** Why and when it left the mirror, in milliseconds since the epoch; null for the published state. */
  readonly left: Pick<HistoryEntry, 'kind' | 'atMs'> | null;
}

/** Verified files of a state: every byte was read. */
export interface FoundFiles {
  /** The state's path below the directory. */
  readonly place: string;
  readonly files: readonly ManifestFile[];
  /** The file with the bytes of each file, by path. */
  readonly sources: ReadonlyMap<string, string>;
  /** Finds the bytes of one file again: the history takes those that a publish replaces. Undefined if they are nowhere. */
  readonly findAgain: (file: ManifestFile) => Promise<string | undefined>;
}

/** Receives the number of bytes just read or copied. */
export type OnBytes = (bytes: number) => void;

/** The total bytes of some files. */
export function sizeOf(files: readonly ManifestFile[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

/**
 * Finds the bytes of some files of a state, and reads all of them. A file that is missing or wrong in its tree (it changed later, or
 * someone edited its link in the mirror) is taken from another place with the same bytes of the target.
 * @throws MirrorError `history.damaged` if some bytes are found nowhere, and the reason of `signal`
 */
export async function findFiles(
  layout: DirectoryLayout,
  { path: target, place, tree }: TargetState,
  files: readonly ManifestFile[],
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<FoundFiles> {
  const sources = await findCopies(layout, target, files, signal, tree, onBytes);
  const lost = files.filter((file) => !sources.has(file.path));
  if (lost.length > 0) throw lostBytes(place, lost);
  const findAgain: FoundFiles['findAgain'] = async (file) =>
    (await findCopies(layout, target, [file], signal, tree)).get(file.path);
  return { place, files, sources, findAgain };
}

/** The error for files whose bytes were found nowhere. */
function lostBytes(place: string, lost: readonly ManifestFile[]): MirrorError {
  const count = counted(lost.length, 'file');
  return new MirrorError(
    'history.damaged',
    `${place} is not what its manifest says: the bytes of ${count} are nowhere on this disk, the first is ${JSON.stringify(lost[0]?.path)}.`,
    { hint: 'Someone or the disk changed it. Its other files can be copied by hand.' },
  );
}

/**
 * Copies files into a new folder, which appears whole or not at all, or into an empty one, which keeps its owner and mode. No other user can
 * read them until every copy was checked.
 * @param folder must not exist, or be empty
 * @throws MirrorError `history.occupied`, `history.damaged`, `disk.*`, and the reason of `signal`
 */
export async function restoreInto(
  folder: string,
  { place, files, sources, findAgain }: FoundFiles,
  signal: AbortSignal,
  onBytes: OnBytes,
): Promise<void> {
  await onDisk(`restoring into ${folder}`, async () => {
    const present = await unlessMissing(readdir(folder));
    const isOther = present === null && (await unlessMissing(lstat(folder))) !== null;
    if (isOther || (present?.length ?? 0) > 0) {
      throw new MirrorError('history.occupied', `${folder} is not ${isOther ? 'a folder' : 'empty'}.`, {
        hint: 'Give a new or an empty folder.',
      });
    }
    await mkdir(dirname(folder), { recursive: true });
    // An empty folder may be a mount point, or the working folder of a shell.
    const around = present === null ? dirname(folder) : folder;
    const partial = join(around, `.restore-${randomUUID()}`);
    try {
      await mkdir(partial, { mode: 0o700 });
      const stage = stageIn(partial, { target: place, published: folder });
      const { tree } = stage;
      await mkdir(tree);
      await stageCopies(stage, place, files, sources, signal, onBytes, findAgain);
      await withOpen(tree, constants.O_RDONLY, ({ fd }) => bindNativeCalls().syncFileSystem(fd));
      if (present === null) await rename(tree, folder);
      else for (const name of await readdir(tree)) await rename(join(tree, name), join(folder, name));
      await syncDirectory(around);
    } finally {
      await rm(partial, { recursive: true, force: true });
    }
  });
}

/**
 * Copies a file, sharing its blocks if the file system can. The copy is read: the owner of the history may have replaced
 * the file since it was checked, in particular by a link to a file that only this user may read.
 * @param place the tree that the file belongs to, below the directory
 * @throws MirrorError `history.damaged`, and system errors
 */
async function copyChecked(
  from: string,
  to: string,
  { path, sha256, sizeBytes, mode }: ManifestFile,
  place: string,
): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  if ((await digestOf(to, sizeBytes)) !== sha256) throw changedSinceFound(place, path);
  await chmod(to, mode);
}

/** The error for a file that changed since its bytes were found. */
function changedSinceFound(place: string, file: string): MirrorError {
  const where = JSON.stringify(`${place}/${file}`);
  return new MirrorError('history.damaged', `Someone changed ${where} while it was copied.`, {
    hint: 'Do not use the copy; try again.',
  });
}

/**
 * Writes the bytes of a file that was found, and compares them with its SHA-256 once more.
 * @param write takes bytes, and must not use them after it returns
 * @throws MirrorError `history.damaged` if they changed since, so that the result is wrong; `disk.failed`
 */
export async function writeFound(
  { place, files, sources }: FoundFiles,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  for (const { path, sha256, sizeBytes } of files) {
    const hash = createHash('sha256');
    await onDisk(`reading ${JSON.stringify(path)}`, () =>
      withOpen(sources.get(path) ?? '', READ_FLAGS, async (handle) => {
        // One byte more than its size: otherwise a file that grows as fast as it is read would never end.
        const chunks: AsyncIterable<unknown> = handle.createReadStream({ autoClose: false, end: sizeBytes });
        for await (const bytes of chunks) {
          if (!(bytes instanceof Uint8Array)) continue;
          hash.update(bytes);
          await write(bytes);
        }
      }),
    );
    if (hash.digest('hex') !== sha256) throw changedSinceFound(place, path);
  }
}

/**
 * Copies files of a manifest into a stage.
 * @param place the tree that the files belong to, below the directory
 * @param copied the absolute places of the bytes to copy, by the paths of the files
 * @param findAgain finds bytes again that are no longer at their place
 * @returns all files of the manifest, with the facts of the copies
 * @throws MirrorError `history.damaged` if someone changed one since its bytes were checked, `disk.*`; the reason of `signal`
 */
export async function stageCopies(
  stage: Stage,
  place: string,
  manifestFiles: readonly ManifestFile[],
  copied: ReadonlyMap<string, string>,
  signal: AbortSignal,
  onBytes: OnBytes,
  findAgain: FoundFiles['findAgain'] = () => Promise.resolve(undefined),
): Promise<ManifestFile[]> {
  const files: ManifestFile[] = [];
  for (const file of manifestFiles) {
    signal.throwIfAborted();
    const { path, mtimeMs, sizeBytes } = file;
    const from = copied.get(path);
    if (from === undefined) files.push(file);
    else {
      await makeParents(stage, path);
      const copy = join(stage.tree, path);
      await onDisk(`copying ${path}`, () =>
        copyChecked(from, copy, file, place).catch(async (error: unknown) => {
          const again = await findAgain(file);
          if (again === undefined) throw error;
          await rm(copy, { force: true });
          await copyChecked(again, copy, file, place);
        }),
      );
      stage.staged.add(path);
      files.push({ ...file, mode: await setTime(stage, path, mtimeMs) });
      onBytes(sizeBytes);
    }
  }
  return files;
}

/** Whether a published tree is at, around or below a path, or is the same target elsewhere. */
function isInTheWay(tree: Published, path: string, manifest: Manifest): boolean {
  const { treePresent } = tree;
  const [one, other] = [foldName(tree.path), foldName(path)];
  if (one === other) return treePresent;
  const isSameTarget = treeKey(tree) === treeKey(manifest);
  return one.startsWith(`${other}/`) || other.startsWith(`${one}/`) || (isSameTarget && treePresent);
}

/**
 * Restores a state of the history into the mirror, if its target is no longer mirrored. Files that its tree still has become hard
 * links and are not copied.
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `history.occupied`, `disk.*`
 */
export async function restoreToMirror(
  store: MirrorStore,
  { path: target, place, tree, manifest }: TargetState,
  { sources }: FoundFiles,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  await store.lock.check();
  const { published, others } = await store.inventory.read();
  const occupant = [...published, ...others].find((tree) => isInTheWay(tree, target, manifest));
  if (occupant !== undefined) {
    const isRestored = (occupant.restoredAtMs ?? null) !== null;
    const origin = isRestored ? 'which was restored from the history' : 'which the service has';
    throw new MirrorError(
      'history.occupied',
      `${target} cannot be restored into the mirror: ${occupant.path}, ${origin}, is there.`,
      { hint: 'Restore into another folder: --to FOLDER.' },
    );
  }
  const hasFacts = trustOf(await examineTree(tree, manifest.files, { depth: 'facts', signal }));
  const isLinkable = (path: string): boolean => sources.get(path) === join(tree, path) && hasFacts(path);
  const linked = manifest.files.filter(({ path }) => isLinkable(path));
  const stage = await openStage(store, target);
  try {
    const copied = new Map([...sources].filter(([path]) => !isLinkable(path)));
    const files = await stageCopies(stage, place, manifest.files, copied, signal, store.onProgress);
    const changed = await linkFiles(stage, tree, linked, store.onProgress);
    if (changed !== null) throw changedSinceFound(place, changed);
    for (const { path } of linked) stage.staged.add(path);
    const { approval: _, ...state } = manifest;
    const restored = { ...state, files, restoredAtMs: nowMs, publishedAtMs: nowMs };
    await publishStage(store, stage, { manifest: restored, before: null });
  } finally {
    await discardStage(store, stage);
  }
}
