import { realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';

import type { SettingsFor } from '../../config/schema.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import {
  keptAt,
  type HistoryEntry,
  manifestOfEntry,
  placeOf,
  readHistory,
} from '../../mirror/store/history/history.ts';
import {
  findFiles,
  restoreInto,
  restoreToMirror,
  sizeOf,
  type TargetState,
} from '../../mirror/store/history/restore.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { entriesOf } from './history.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';

/** A tree to be restored. */
export interface RestoreRequest {
  readonly target: string;
  /** The state that the mirror had then, in milliseconds since the epoch; null for the latest that is kept. */
  readonly atMs: number | null;
  /** A folder outside of the mirror's directory; null for the mirror itself. */
  readonly to: string | null;
}

/** The step of a restoration: reading the kept tree, or copying it. */
export type RestoreWork = 'checking' | 'copying';

/** What was restored, and where it is now. */
export interface Restored {
  readonly target: string;
  /** When the state that it is of left the mirror, in milliseconds since the epoch; null for the one that is published. */
  readonly leftAtMs: number | null;
  readonly files: number;
  readonly sizeBytes: number;
  readonly folder: string;
}

/**
 * Restores a tree of the history: into a folder, which works beside a running daemon, or into the mirror, which does not, and where
 * root goes on as the owner of the directory.
 * @param onBytes receives the bytes of each part that was read or copied, and the bytes of all parts
 * @throws MirrorError `target.unknown`, `history.*`, `directory.locked`, `disk.*`
 */
export async function restoreHistory(
  settings: SettingsFor<'directory'>,
  { target, atMs, to }: RestoreRequest,
  onBytes: (doing: RestoreWork, bytes: number, totalBytes: number) => void = () => {},
): Promise<Restored> {
  const layout = layoutOf(settings.directory);
  const folder = to === null ? null : await folderOutside(to, layout.root);
  return interruptible(async (signal) => {
    const entries = entriesOf(await readHistory(layout), target, layout.mirror);
    const state = (await keptState(entries, atMs)) ?? notKept(target, atMs);
    const { path, leftAtMs } = state;
    const { files } = state.manifest;
    const found = await findFiles(layout, state, files, signal, (...args) => onBytes('checking', ...args));
    if (folder === null) {
      await becomeOwnerOf(settings.directory);
      const { openMirrorStore } = await import('../../app/open-mirror.ts');
      const store = await openMirrorStore(settings);
      try {
        await restoreToMirror(store, state, found, Date.now(), signal);
      } finally {
        await store.lock.release();
      }
    } else await restoreInto(folder, found, signal, (...args) => onBytes('copying', ...args));
    return {
      target: path,
      leftAtMs,
      files: files.length,
      sizeBytes: sizeOf(files),
      folder: folder ?? `${layout.mirror}/${path}`,
    };
  });
}

/**
 * The state in the history that the mirror had at a time; null where it is not kept.
 * @param entries those of one target, by time
 * @param atMs milliseconds since the epoch; null for the latest that is kept
 * @throws MirrorError `history.damaged`, `disk.failed`
 */
export async function keptState(
  entries: readonly HistoryEntry[],
  atMs: number | null,
): Promise<TargetState | null> {
  const nowMs = Date.now();
  const byTime = latestFirst(nowMs);
  const [latest] = [...entries].sort((a, b) => byTime(a.atMs, b.atMs));
  const entry = atMs === null ? latest : keptAt(entries, atMs, nowMs);
  if (entry === undefined || entry === null) return null;
  const manifest = await manifestOfEntry(entry);
  if (atMs !== null && manifest.publishedAtMs > atMs) return null;
  const { path, tree, atMs: leftAtMs } = entry;
  return { path, place: placeOf(entry), tree, manifest, leftAtMs };
}

/** Does something that a signal ends in order. @throws MirrorError `pass.abandoned` where one did, and what the work throws */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, stopListening } = abortOnSignal();
  try {
    return await work(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new MirrorError('pass.abandoned', 'Interrupted: nothing was restored.', { cause: error });
  } finally {
    stopListening();
  }
}

/** The folder to restore into, absolute. @throws MirrorError `usage.invalid` where it lies in the directory of the mirror, or can be none */
export async function folderOutside(to: string, root: string): Promise<string> {
  const folder = resolve(to);
  const inTheWay = await fileOnTheWay(folder);
  if (inTheWay !== null) {
    throw new MirrorError('usage.invalid', `--to ${to}: ${inTheWay} is no folder.`, {
      hint: 'Give a folder that does not exist yet.',
    });
  }
  if (!`${await realPath(folder)}/`.startsWith(`${await realPath(root)}/`)) return folder;
  throw new MirrorError('usage.invalid', `--to ${to} lies in the mirror's own directory.`, {
    hint: 'Give a folder elsewhere.',
  });
}

/** What stands at a path, or where a folder above it would have to be, and is no folder; null for nothing. */
async function fileOnTheWay(path: string): Promise<string | null> {
  const stats = await unlessMissing(stat(path));
  if (stats !== null) return stats.isDirectory() ? null : path;
  return path === dirname(path) ? null : fileOnTheWay(dirname(path));
}

/** Where a path really leads, as far as it exists. */
async function realPath(path: string): Promise<string> {
  const real = await unlessMissing(realpath(path));
  return real ?? join(await realPath(dirname(path)), basename(path));
}

/** Refuses a state that the history does not keep. @throws MirrorError `history.not_found` */
export function notKept(target: string, atMs: number | null): never {
  const when = atMs === null ? '' : ` as it was at ${utcTime(atMs)}`;
  throw new MirrorError('history.not_found', `The history does not keep ${target}${when}.`, {
    hint: `\`${ownCommand('history list')}\` shows what is kept; the state since then is the mirror itself.`,
  });
}
