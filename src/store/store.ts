import { randomUUID } from 'node:crypto';
import { access, constants, lstat, mkdir, readdir, readFile, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import type { Approval, Approvals } from '../model/guard.ts';
import type { Manifest } from '../model/manifest.ts';
import type { PublishMode } from '../model/publishing.ts';
import type { RetentionPolicy } from '../model/retention.ts';
import type { Published } from '../model/targets.ts';
import { onDisk, systemCode, unlessMissing } from '../model/disk-errors.ts';
import { readApprovals, removeApprovals } from './approvals.ts';
import { ensureFolder, replaceFile } from './durable.ts';
import { pruneHistory } from './history.ts';
import { createInventory } from './inventory.ts';
import { type DirectoryLayout, layoutOf, manifestPath, treePath } from './layout.ts';
import { lockDirectory } from './lock.ts';
import { readManifest } from './manifest-file.ts';
import { bindNativeCalls, type NativeCalls } from './native.ts';
import {
  createExclusion,
  moveTree,
  type PublishContext,
  type PublishResult,
  publishStage,
  type Repair,
  retireTree,
} from './publish.ts';
import { settleStages } from './settle.ts';
import { isTreeWhole, openStage, type Stage } from './stage.ts';

/** The mirror directory, locked by this process and writable. */
export interface MirrorStore {
  readonly layout: DirectoryLayout;
  /** Tells this directory apart from others, for stores that several share. */
  readonly id: string;
  /** Whether the file system swaps directories in one step; where not, publishing goes file by file. */
  readonly canExchange: boolean;
  /** The targets whose publish a crash had interrupted and that was completed at opening. */
  readonly recovered: readonly string[];
  /** Completes what errors interrupted, while no stage is in use; gives the targets that it completed. */
  readonly settle: () => Promise<readonly string[]>;
  readonly published: () => Promise<Published[]>;
  readonly manifest: (path: string) => Promise<Manifest | null>;
  /** Whether a published tree holds just what its manifest says, as far as `lstat` tells. */
  readonly isWhole: (path: string, manifest: Manifest) => Promise<boolean>;
  readonly stage: (currentPath: string) => Promise<Stage>;
  readonly publish: (
    stage: Stage,
    path: string,
    manifest: Manifest,
    repair: Repair,
  ) => Promise<PublishResult>;
  readonly move: (from: string, to: string, manifest: Manifest) => Promise<void>;
  readonly retire: (path: string) => Promise<void>;
  /**
   * Removes replaced trees that no reader needs any more, and what the history keeps no longer.
   * @param historyNowMs the time by which the history is judged, in milliseconds since the epoch
   * @returns what the history lost, as `<target>/<name>`
   */
  readonly sweep: (historyNowMs: number) => Promise<readonly string[]>;
  readonly approvals: () => Promise<Approvals>;
  readonly withdrawApprovals: (approvals: readonly Approval[]) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** How a store is opened. */
export interface StoreOptions {
  readonly directory: string;
  readonly publish: PublishMode;
  /** How long a replaced tree stays whole, in milliseconds. */
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** The standard mark of a folder that backups may leave out (https://bford.info/cachedir/). */
const CACHEDIR_TAG =
  'Signature: 8a477f597d28d172789f06886806bc55\n# Made by workbook-mirror; nothing here needs a backup.\n';

/**
 * Opens the directory for writing: makes its folders, takes its lock, and settles what a crash left.
 * @throws MirrorError `directory.unusable`, `directory.locked`
 */
export async function openStore(options: StoreOptions): Promise<MirrorStore> {
  const layout = layoutOf(options.directory);
  const native = bindNativeCalls();
  await prepare(layout);
  const lock = await usable(layout.root, () => lockDirectory(layout.lockFile, native));
  try {
    const canExchange = await probeExchange(layout, native);
    if (!canExchange && options.publish === 'exchange') throw exchangeMissing(options.directory);
    const context: PublishContext = {
      layout,
      native,
      mode: options.publish,
      canExchange,
      keepsReplaced: options.retention.replaced.kind !== 'off',
      now: options.now,
      exclusively: createExclusion(),
      unsettled: new Map(),
      trashUntilMs: () => options.now() + options.readerGraceMs,
    };
    const settle = (): Promise<readonly string[]> =>
      onDisk('settling interrupted work', async () => {
        const { completed, unsettled } = await settleStages(context);
        context.unsettled.clear();
        for (const [path, error] of unsettled) context.unsettled.set(path, error);
        return completed;
      });
    const recovered = await settle();
    const inventory = createInventory(layout);
    return {
      layout,
      id: await usable(layout.root, () => directoryId(layout)),
      canExchange,
      recovered,
      settle,
      published: inventory.read,
      manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
      isWhole: (path, { files }) =>
        onDisk('looking at a tree', () => isTreeWhole(treePath(layout, path), files)),
      stage: (currentPath) => openStage(layout, currentPath),
      publish: (stage, path, manifest, repair) => publishStage(context, stage, path, manifest, repair),
      move: (from, to, manifest) => moveTree(context, from, to, manifest),
      retire: (path) => retireTree(context, path),
      sweep: async (historyNowMs) => {
        await onDisk('removing replaced trees', () =>
          sweepTrash(layout, options.now(), options.readerGraceMs),
        );
        const pruned = await pruneHistory(layout, options.retention, historyNowMs);
        return pruned.map(({ path, name }) => `${path}/${name}`);
      },
      approvals: () => readApprovals(layout),
      withdrawApprovals: (approvals) => removeApprovals(layout, approvals),
      close: lock.release,
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/**
 * Reads what is published without taking the lock and without writing anything: for `plan`, `status` and `why`.
 */
export async function readStore(
  directory: string,
): Promise<Pick<MirrorStore, 'layout' | 'id' | 'published' | 'manifest' | 'approvals'>> {
  const layout = layoutOf(directory);
  const id = await unlessMissing(readFile(join(layout.internal, ID_FILE), 'utf8'));
  return {
    layout,
    id: id?.trim() ?? '',
    published: createInventory(layout).read,
    manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
    approvals: () => readApprovals(layout),
  };
}

const ID_FILE = 'directory-id';

async function directoryId(layout: DirectoryLayout): Promise<string> {
  const file = join(layout.internal, ID_FILE);
  const known = (await unlessMissing(readFile(file, 'utf8')))?.trim() ?? '';
  if (known !== '') return known;
  const id = randomUUID();
  await replaceFile(file, `${id}\n`, layout.staging);
  return id;
}

async function prepare(layout: DirectoryLayout): Promise<void> {
  try {
    for (const folder of [layout.mirror, layout.manifests, layout.history, layout.staging, layout.trash]) {
      await ensureFolder(folder);
      await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    }
    await writeFile(join(layout.internal, 'CACHEDIR.TAG'), CACHEDIR_TAG);
  } catch (error) {
    throw unusable(error, layout.root);
  }
}

/** Runs what opening needs; what the file system refuses is a fault of the setting. */
async function usable<T>(root: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw unusable(error, root);
  }
}

const UNUSABLE_HINTS: Readonly<Record<string, string>> = {
  EACCES: 'Give the user that runs workbook-mirror write permission there, or choose another directory.',
  EPERM: 'Give the user that runs workbook-mirror write permission there, or choose another directory.',
  EROFS: 'The file system is mounted read-only: mount it for writing, or choose another directory.',
  ENOTDIR: 'Something on the way to it is a file: choose another directory.',
  EEXIST: 'Something on the way to it is a file: choose another directory.',
  ENOSPC: 'The file system is full: make room, or choose another directory.',
  EDQUOT: 'The quota is used up: raise it, or choose another directory.',
};

function unusable(error: unknown, root: string): unknown {
  const code = systemCode(error);
  if (error instanceof MirrorError || code === undefined || !(error instanceof Error)) return error;
  return new MirrorError('directory.unusable', `directory: cannot write in ${root}: ${error.message}`, {
    cause: error,
    hint: UNUSABLE_HINTS[code] ?? 'Check the file system, or choose another directory.',
  });
}

function exchangeMissing(root: string): MirrorError {
  return new MirrorError(
    'directory.unusable',
    `publish: the file system of ${root} cannot swap directories.`,
    {
      hint: 'Set publish to auto, which falls back to renaming file by file there, or choose another directory.',
    },
  );
}

/** Finds out by trying whether two directories can change places here. */
async function probeExchange(layout: DirectoryLayout, native: NativeCalls): Promise<boolean> {
  const [mirror, internal] = await Promise.all([lstat(layout.mirror), lstat(layout.internal)]);
  if (mirror.dev !== internal.dev) return false;
  const one = join(layout.staging, `probe-${randomUUID()}`);
  const other = join(layout.staging, `probe-${randomUUID()}`);
  try {
    await mkdir(one);
    await mkdir(other);
    native.exchange(one, other);
    return true;
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EINVAL' || code === 'ENOSYS' || code === 'ENOTSUP') return false;
    throw unusable(error, layout.root);
  } finally {
    await unlessMissing(rmdir(one));
    await unlessMissing(rmdir(other));
  }
}

/** Removes what is due, and what a clock that was ahead would keep for ever. */
async function sweepTrash(layout: DirectoryLayout, nowMs: number, readerGraceMs: number): Promise<void> {
  for (const name of await readdir(layout.trash)) {
    const untilMs = Number(name.slice(0, name.indexOf('-')));
    const isKept = untilMs > nowMs && untilMs <= nowMs + readerGraceMs;
    if (!isKept) await rm(join(layout.trash, name), { recursive: true, force: true });
  }
}
