import { randomUUID } from 'node:crypto';
import { access, constants, lstat, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';

import { z } from 'zod';

import { Places } from '../../lib/concurrency/concurrency.ts';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import { resolvedPath } from '../../lib/disk/mounts.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';
import { SharedFlush } from '../../lib/disk/shared-flush.ts';
import { causeOf, diskError, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { Shard } from '../plan/selection.ts';
import type { Disk, MirrorStore } from './disk.ts';
import { createInventory } from './inventory.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';
import { createGate, prepareGate } from './leases.ts';
import { examineFileSystem, type FileSystemWants, refuseMounts } from './probes.ts';
import { recover } from './publish/journal.ts';
import { refuseLinks } from './published-tree.ts';
import { lockForWriting, withCommonLock } from './shards.ts';

/** How a directory is opened for writing. */
export interface StoreOptions
  extends
    Pick<Disk, 'readerGraceMs' | 'retention' | 'now'>,
    Pick<FileSystemWants, 'publish'>,
    Partial<Pick<FileSystemWants, 'nameTwins'>> {
  readonly directory: string;
  /** The share of this instance, among several; left out if it has all. */
  readonly shard?: Shard;
  /** Whether a first mirror may be made in a folder that is not empty. */
  readonly adopt?: boolean;
  /** Called whenever bytes were read or written for a pass. */
  readonly onProgress?: () => void;
}

/**
 * Opens the directory for writing: makes its folders, takes its lock, recovers from a crash, and reads the directory's id.
 * @throws MirrorError `directory.unusable`, `directory.locked`
 */
export async function openStore(options: StoreOptions): Promise<MirrorStore> {
  const { publish: mode, nameTwins = 'refuse', shard = null, adopt = false } = options;
  const { readerGraceMs, retention, now, onProgress = () => {} } = options;
  const layout = layoutOf(options.directory, options.shard);
  // Readers do not need them.
  const { bindNativeCalls } = await import('../../lib/native/file-calls.ts');
  const native = bindNativeCalls();
  return usable(layout.root, async () => {
    await refuseForeignDirectory(layout, adopt);
    // Before anything is made there: files made below a mount point stay there.
    const ofMounts = await refuseMounts(layout);
    await prepareDirectory(layout, mode === 'link');
    const lock = await lockForWriting(layout, shard, native);
    try {
      const fileSystem = await examineFileSystem(layout, native, { publish: mode, nameTwins });
      const changes = new Places(1);
      const disk: Disk = {
        layout,
        native,
        lock,
        mode,
        canExchange: fileSystem.canExchange,
        timeStepMs: fileSystem.timeStepMs ?? 1,
        limits: [...fileSystem.limits, ...ofMounts],
        flush: new SharedFlush(() => native.syncFileSystem(lock.fd)),
        readerGraceMs,
        retention,
        now,
        onProgress,
        gate: createGate(layout, native, now),
        serially: (work) => changes.run(work),
        unfinished: new Map(),
        inUse: new Set(),
        linked: new Map(),
        searched: { atMs: null },
      };
      const recovered = await recover(disk);
      const inventory = createInventory(layout, shard, disk.linked);
      const knownId = await knownDirectoryId(layout);
      return { ...disk, id: knownId ?? randomUUID(), isNew: knownId === null, shard, inventory, recovered };
    } catch (error) {
      await lock.release();
      throw error;
    }
  });
}

/** The standard mark of a folder that backups may skip (https://bford.info/cachedir/). */
const CACHEDIR_TAG =
  'Signature: 8a477f597d28d172789f06886806bc55\n# Made by workbook-mirror; nothing here needs a backup.\n';

/** Private files of version 0.1.0. Manifests and records hold the same facts, and commands now use the control socket. */
const OBSOLETE = ['verification.json', 'held', 'drifted.json', 'retries', 'polls'];

/**
 * Makes the folders of a directory.
 * @param isLinking whether links below `mirror/` will lead to trees elsewhere
 * @throws MirrorError `disk.changed` where one is a link, and system errors
 */
export async function prepareDirectory(layout: DirectoryLayout, isLinking: boolean): Promise<void> {
  const { mirror, manifests, history, trees, staging, trash, leases, approvals } = layout;
  // The private folder first: it shows the next start that a mirror was begun here.
  const ofTrees = [mirror, manifests, history, ...(isLinking ? [trees] : [])];
  // Instances that share the directory keep the leftovers of earlier ones there.
  const { staging: commonStaging, trash: commonTrash } = layoutOf(layout.root);
  const folders = [...new Set([staging, trash, commonStaging, commonTrash]), leases, ...ofTrees];
  await refuseLinks(
    layout,
    [...folders, trees, approvals].map((folder) => relative(layout.root, folder)),
  );
  for (const folder of folders) {
    await ensureFolder(folder);
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  }
  for (const folder of new Set([layout.internal, dirname(layout.stateFile)]))
    for (const name of OBSOLETE) await rm(join(folder, name), { force: true, recursive: true });
  await prepareGate(layout);
  await prepareTag(layout);
}

/** Marks the private folder, once. */
async function prepareTag({ internal, staging }: DirectoryLayout): Promise<void> {
  const tag = join(internal, 'CACHEDIR.TAG');
  if ((await readOwnText(tag, 2 * CACHEDIR_TAG.length)) !== CACHEDIR_TAG)
    await replaceFile(tag, CACHEDIR_TAG, staging);
}

/** Runs a step of opening; a refusal by the file system means that the setting is wrong. */
export async function usable<T>(root: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw unusable(error, root);
  }
}

/** Errors of flock(2) on a file system without locks. */
const NO_LOCKS: ReadonlySet<string> = new Set(['ENOLCK', 'ENOSYS', 'EOPNOTSUPP']);

/** Disk failures that may have passed by the next start: a supervisor restarts the program for these, but not for wrong settings. */
const PASSING: ReadonlySet<string> = new Set('EIO EROFS ENOSPC EDQUOT ESTALE ENOTCONN EHOSTDOWN'.split(' '));

function unusable(error: unknown, root: string): unknown {
  const code = systemCode(error);
  if (error instanceof MirrorError || code === undefined || !(error instanceof Error)) return error;
  const cause = causeOf(error, root);
  if (cause?.code === 'system.exhausted' || PASSING.has(code)) return diskError(error, `opening ${root}`);
  const what = cause === null ? error.message : `${cause.what} (${code})`;
  const hint = NO_LOCKS.has(code)
    ? 'The file system takes no locks (flock(2)): mount it with locks, or choose another directory.'
    : 'Check the file system, or choose another directory.';
  return new MirrorError('directory.unusable', `directory: cannot write in ${root}: ${what}`, {
    cause: error,
    hint: cause?.hint ?? hint,
  });
}

const ID_FILE = 'directory-id';
const MAX_ID_BYTES = 1024;

/** The id of a directory, a UUID; null if it was never opened, or was copied without its private folder. */
export async function knownDirectoryId(layout: DirectoryLayout): Promise<string | null> {
  const id = (await readOwnText(join(layout.internal, ID_FILE), MAX_ID_BYTES))?.trim() ?? '';
  return z.uuid().safeParse(id).success ? id : null;
}

/** Writes the new id of a directory, unless another instance has given it one. @throws MirrorError `directory.*` */
export async function keepDirectoryId({ layout, native, lock, id }: MirrorStore): Promise<void> {
  await lock.check();
  const keep = async (): Promise<void> => {
    if ((await knownDirectoryId(layout)) !== null) return;
    await replaceFile(join(layout.internal, ID_FILE), `${id}\n`, layout.staging);
  };
  await usable(layout.root, () => withCommonLock(layout, native, keep));
}

/** Names in the topmost folder of a volume (mkfs.ext4(8), snapshots of NetApp and ZFS): a folder with only these is empty. */
const OF_FILE_SYSTEMS: ReadonlySet<string> = new Set(['lost+found', '.snapshot', '.zfs']);

/** How many names a refusal lists. */
const NAMES_SHOWN = 5;

/**
 * Keeps a mirror from being made inside other data: a directory that holds no mirror yet must be empty.
 * @param adopt whether an operator wants the mirror beside the existing files
 * @returns whether it holds a mirror
 * @throws MirrorError `directory.unusable`
 */
export async function refuseForeignDirectory(layout: DirectoryLayout, adopt: boolean): Promise<boolean> {
  const names = (await unlessMissing(readdir(layout.root))) ?? [];
  if (await holdsMirror(layout, names)) return true;
  const outer = await mirrorAround(await resolvedPath(layout.root));
  if (outer !== null)
    throw refused(`${layout.root} lies inside another mirror, ${outer}`, 'Choose a folder outside of it.');
  const others = names.filter((name) => !OF_FILE_SYSTEMS.has(name)).sort();
  if (adopt || others.length === 0) return false;
  const shown = others.slice(0, NAMES_SHOWN).map((name) => JSON.stringify(name));
  const more = others.length > shown.length ? ` and ${others.length - shown.length} more` : '';
  throw refused(
    `${layout.root} holds no mirror, but ${shown.join(', ')}${more}`,
    `Choose a folder that is empty or does not exist yet. To put the mirror beside what is there, run once: \`${ownCommand('sync --adopt')}\`.`,
  );
}

function refused(what: string, hint: string): MirrorError {
  return new MirrorError('directory.unusable', `directory: ${what}: no mirror is made there.`, { hint });
}

/** Whether a folder is the directory of a mirror: one that was begun, or one that was restored without its private folders. */
async function holdsMirror(layout: DirectoryLayout, names: readonly string[]): Promise<boolean> {
  const has = (path: string): boolean => names.includes(basename(path));
  const isFolder = async (path: string): Promise<boolean> =>
    has(path) && (await unlessMissing(lstat(path)))?.isDirectory() === true;
  if (await isFolder(layout.internal)) return true;
  if (!(await isFolder(layout.manifests))) return false;
  return has(layout.targetList) || (await isFolder(layout.mirror));
}

/** The mirror directory that contains a folder; null for none. */
async function mirrorAround(folder: string): Promise<string | null> {
  for (let above = dirname(folder); above !== dirname(above); above = dirname(above)) {
    const found = await lstat(join(above, basename(layoutOf(above).internal))).catch(() => null);
    if (found?.isDirectory() === true) return above;
  }
  return null;
}

/** The parts of the store that can be read while another process writes the mirror directory. */
export type StoreReader = Pick<MirrorStore, 'layout' | 'shard' | 'id' | 'inventory'>;

/**
 * Reads the published targets without taking the lock and without writing anything: for `plan`, `status` and `why`.
 * @param shard the instance whose targets are read; null if it has all
 */
export async function readStore(directory: string, shard: Shard | null = null): Promise<StoreReader> {
  const layout = layoutOf(directory, shard ?? undefined);
  const id = (await knownDirectoryId(layout)) ?? '';
  return { layout, shard, id, inventory: createInventory(layout, shard) };
}
