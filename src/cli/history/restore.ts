import { resolve } from 'node:path';

import type { Command } from 'commander';

import { namedPath, targetNamed } from '../../app/target-names.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { LockedError } from '../../lib/disk/lock.ts';
import { resolvedPath } from '../../lib/disk/mounts.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { foldersWith, isTargetPath } from '../../lib/paths/file-name.ts';
import { becomeOwnerOf } from '../../lib/process/owner.ts';
import { untilStopped } from '../../lib/process/signals.ts';
import { standardOutput, writeBytes } from '../../lib/process/streams.ts';
import { counted, utcTime } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { describeAmount, Gauge } from '../../lib/time/gauge.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import {
  type HistoryEntry,
  keptAt,
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
  writeFound,
} from '../../mirror/store/history/restore.ts';
import { manifestPaths, readManifest, readStampedManifest } from '../../mirror/store/inventory.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import type { ManifestFile } from '../../mirror/store/manifest.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { createLiveLine } from '../frame/live-line.ts';
import { loudness, type Outcome, tell } from '../frame/output.ts';
import { parseTime } from '../frame/times.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { entriesOf } from './history.ts';

/** `history restore` */
export async function runHistoryRestore(command: Command): Promise<Outcome> {
  const [target = '', ...paths] = command.args;
  const { at, to, json }: { at?: string; to?: string; json?: true } = command.opts();
  const { settings } = settingsOf(command, ['directory']);
  const request = { target, paths, atMs: at === undefined ? null : parseTime(at, Date.now()) };
  if (paths.length > 0 && to === undefined) {
    refuseOutput(paths, json === true);
    const { sizeBytes, ...state } = await writeFile(settings, request, writeBytes);
    if (loudness() !== 'quiet') tell(say`${describeState(state)}: ${counted(sizeBytes, 'byte')}, checked`);
    return {};
  }
  const line = createLiveLine();
  const gauges = new Map<string, Gauge>();
  try {
    const restored = await restoreHistory(
      settings,
      { ...request, to: to ?? null },
      (doing, bytes, totalBytes) => {
        const gauge = gauges.get(doing) ?? new Gauge(totalBytes);
        gauges.set(doing, gauge);
        gauge.add(bytes);
        line.show(() => `${doing} ${describeAmount(gauge.amount())}`);
      },
    );
    const { files, folder } = restored;
    const text = say`${describeState(restored)}: ${counted(files, 'file')}, checked byte for byte, now in ${folder}`;
    return { data: restored, text: () => text };
  } finally {
    line.clear();
  }
}

/** Refuses anything but the bytes of one file for standard output. @throws MirrorError `usage.invalid` */
function refuseOutput(paths: readonly string[], isJson: boolean): void {
  const problem = isJson
    ? 'JSON and the bytes of a file cannot both go to standard output.'
    : paths.length > 1
      ? `Standard output takes one file, not ${paths.length} paths.`
      : standardOutput.isTerminal()
        ? 'Standard output is a terminal, which cannot show the bytes of a file.'
        : null;
  if (problem === null) return;
  const hint = 'Give a folder to restore into, --to FOLDER, or redirect one file: > FILE.';
  throw new MirrorError('usage.invalid', problem, { hint });
}

function describeState({ target, leftAtMs }: Pick<Restored, 'target' | 'leftAtMs'>): string {
  return leftAtMs === null
    ? `${target}, the published state`
    : `${target}, the state that left the mirror at ${new Date(leftAtMs).toISOString()}`;
}

/** Files of one state of a target. */
interface FilesRequest {
  readonly target: string;
  /** Files or folders of its tree; all if none is named. */
  readonly paths?: readonly string[];
  /** The time of the state, in milliseconds since the epoch; null for the latest state in the history. */
  readonly atMs: number | null;
}

/** A restored state, and its place. */
interface Restored {
  readonly target: string;
  /** When the state left the mirror, in milliseconds since the epoch; null for the published state. */
  readonly leftAtMs: number | null;
  readonly files: number;
  readonly sizeBytes: number;
  readonly folder: string;
}

/**
 * Restores files of the history: into a folder, also beside a running daemon, or into the mirror, which needs its lock. For the mirror,
 * root becomes the owner of the directory.
 * @param to a folder outside of the mirror's directory; null for the mirror itself
 * @param onBytes receives the step, the bytes of each part read or copied, and the bytes of all parts
 * @throws MirrorError `usage.invalid`, `target.unknown`, `history.*`, `directory.locked`, `disk.*`, `pass.abandoned`
 */
export async function restoreHistory(
  settings: SettingsFor<'directory'>,
  { to, ...request }: FilesRequest & { readonly to: string | null },
  onBytes: (doing: 'checking' | 'copying', bytes: number, totalBytes: number) => void = () => {},
): Promise<Restored> {
  const layout = layoutOf(settings.directory);
  const folder = to === null ? null : await folderOutside(to, layout.root);
  return untilStopped(
    async (signal) => {
      const { state, files } = await lookUp(layout, request);
      if (folder === null && state.leftAtMs === null) notKept(request.target, request.atMs);
      const found = await findFiles(layout, state, files, signal, (...args) => onBytes('checking', ...args));
      if (folder === null) {
        await becomeOwnerOf(settings.directory);
        const { openMirrorStore } = await import('../../app/open-mirror.ts');
        const store = await openMirrorStore(settings).catch(elsewhereIfLocked);
        try {
          await restoreToMirror(store, state, found, Date.now(), signal);
        } finally {
          await store.lock.release();
        }
      } else await restoreInto(folder, found, signal, (...args) => onBytes('copying', ...args));
      return { ...restoredOf(state, files), folder: folder ?? `${layout.mirror}/${state.path}` };
    },
    { outcome: 'nothing was restored' },
  );
}

/** @throws the given error; if a daemon has the directory, with a hint for restoring beside it */
function elsewhereIfLocked(error: unknown): never {
  if (!(error instanceof LockedError)) throw error;
  throw new MirrorError('directory.locked', error.message, {
    cause: error,
    hint: 'Restore into another folder: --to FOLDER. To restore into the mirror itself, stop the daemon.',
  });
}

/**
 * Writes the bytes of one file, after reading and checking them. If they change between the two, it fails part-way.
 * @throws MirrorError as {@link restoreHistory}; `usage.invalid` for a folder with several files
 */
export async function writeFile(
  settings: SettingsFor<'directory'>,
  request: FilesRequest,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<Omit<Restored, 'folder'>> {
  const layout = layoutOf(settings.directory);
  const { state, files } = await lookUp(layout, request);
  if (files.length > 1) {
    throw new MirrorError('usage.invalid', `${JSON.stringify(request.paths?.[0])} is a folder.`, {
      hint: 'Standard output takes one file. Give a folder for it and all below it: --to FOLDER.',
    });
  }
  // A signal, or the reader, may end the whole process: there is nothing to clean up.
  const found = await findFiles(layout, state, files, new AbortController().signal, () => {});
  await writeFound(found, write);
  return restoredOf(state, files);
}

function restoredOf(
  { path, leftAtMs }: TargetState,
  files: readonly ManifestFile[],
): Omit<Restored, 'folder'> {
  return { target: path, leftAtMs, files: files.length, sizeBytes: sizeOf(files) };
}

/** The requested state, and the requested files of it. @throws MirrorError `target.unknown`, `history.*`, `disk.failed` */
async function lookUp(
  layout: DirectoryLayout,
  { target, paths = [], atMs }: FilesRequest,
): Promise<{ readonly state: TargetState; readonly files: readonly ManifestFile[] }> {
  const history = await readHistory(layout);
  const known = [...(await manifestPaths(layout)), ...history.map((entry) => entry.path)];
  const path = targetNamed(target, layout.mirror, known);
  const entries = history.filter((entry) => entry.path === path);
  const published = isTargetPath(path) ? await publishedState(layout, path) : null;
  const state = await stateAt(entries, published, atMs);
  if (state === null) {
    entriesOf(history, target, layout.mirror);
    return notKept(target, atMs);
  }
  const { files } = state.manifest;
  if (paths.length === 0) return { state, files };
  const chosen = new Set<ManifestFile>();
  for (const asked of paths) {
    const readings = readingsOf(asked, path, layout.mirror);
    const found = chooseFiles(files, readings);
    if (found === null) throw await unknownPath(asked, readings, state, published, entries);
    for (const file of found) chosen.add(file);
  }
  return { state, files: [...chosen] };
}

/**
 * The state of a target at a time: one in the history or, if it has not changed since, the published one; null if neither is known
 * to be it.
 * @param entries of the target, by time
 * @param atMs milliseconds since the epoch; null for the latest state in the history
 */
async function stateAt(
  entries: readonly HistoryEntry[],
  published: TargetState | null,
  atMs: number | null,
): Promise<TargetState | null> {
  const nowMs = Date.now();
  const byTime = latestFirst(nowMs);
  const [latest] = [...entries].sort((a, b) => byTime(a.atMs, b.atMs));
  const entry = (atMs === null ? latest : keptAt(entries, atMs, nowMs)) ?? null;
  if (entry === null)
    return atMs !== null && atMs <= nowMs && published !== null && published.manifest.publishedAtMs <= atMs
      ? published
      : null;
  const manifest = await manifestOfEntry(entry);
  if (atMs !== null && manifest.publishedAtMs > atMs) return null;
  return { path: entry.path, place: placeOf(entry), tree: entry.tree, manifest, leftAtMs: entry.atMs };
}

/** The published state of a target; null if it is not mirrored. @throws MirrorError `disk.failed` */
async function publishedState(layout: DirectoryLayout, path: string): Promise<TargetState | null> {
  const found = await onDisk('reading a manifest', () => readStampedManifest(layout, path));
  const manifest = found?.manifest ?? null;
  if (manifest === null) return null;
  return { path, place: `mirror/${path}`, tree: publishedTree(layout, path), manifest, leftAtMs: null };
}

/**
 * The files that a path means: one file, or all files below a folder. A path in another Unicode form, which looks the same, also finds
 * a file if only one fits.
 * @param paths the possible meanings of the path, below the tree; the first that finds something counts
 * @returns null if none does
 */
export function chooseFiles(
  files: readonly ManifestFile[],
  paths: readonly string[],
): readonly ManifestFile[] | null {
  for (const path of paths) {
    const exact = files.filter((file) => file.path === path);
    const found =
      exact.length > 0 || path === '' ? exact : files.filter((file) => file.path.startsWith(`${path}/`));
    if (found.length > 0) return found;
  }
  for (const path of paths) {
    const same = files.filter((file) => file.path.normalize('NFC') === path.normalize('NFC'));
    if (same.length === 1) return same;
  }
  return null;
}

/** The possible meanings of a given path: within the tree, on disk, or below `mirror/`. */
function readingsOf(asked: string, target: string, mirror: string): string[] {
  const within = asked.replace(/^(?:\.\/)+/, '').replace(/\/+$/, '');
  const named = namedPath(asked, mirror);
  return named.startsWith(`${target}/`) ? [within, named.slice(target.length + 1)] : [within];
}

/** The error for a path that a state lacks, with its nearest path or with the state that has the path. */
async function unknownPath(
  asked: string,
  readings: readonly string[],
  state: TargetState,
  published: TargetState | null,
  entries: readonly HistoryEntry[],
): Promise<MirrorError> {
  const names = state.manifest.files.map((file) => file.path);
  const close = likely(readings.at(-1) ?? asked, [...names, ...foldersWith(names)]);
  const elsewhere = await stateWith(readings, published, entries);
  const nearest = close === undefined ? null : `The nearest is ${JSON.stringify(close)}.`;
  const hint = [elsewhere, nearest].filter((each) => each !== null).join(' ');
  const message = `${state.place} has no file or folder ${JSON.stringify(asked)}.`;
  return new MirrorError('history.not_found', message, hint === '' ? {} : { hint });
}

/** Names the state of a target that has a path: the published one, or else the latest. */
async function stateWith(
  readings: readonly string[],
  published: TargetState | null,
  entries: readonly HistoryEntry[],
): Promise<string | null> {
  if (chooseFiles(published?.manifest.files ?? [], readings) !== null)
    return `The mirror has it now, in ${published?.place}.`;
  // One manifest at a time: each may be large.
  for (const { atMs, manifest } of entries.toReversed()) {
    const { files = [] } = (await readManifest(manifest).catch(() => null)) ?? {};
    if (chooseFiles(files, readings) !== null)
      return `It is in the state that left the mirror at ${new Date(atMs).toISOString()}: give that as --at.`;
  }
  return null;
}

/** The folder to restore into, absolute. @throws MirrorError `usage.invalid` if it is in the directory of the mirror */
async function folderOutside(to: string, root: string): Promise<string> {
  const folder = resolve(to);
  const real = await onDisk(`looking at ${to}`, () => resolvedPath(folder));
  if (!`${real}/`.startsWith(`${await resolvedPath(root)}/`)) return folder;
  throw new MirrorError('usage.invalid', `--to ${to} is in the mirror's own directory.`, {
    hint: 'Give a folder elsewhere.',
  });
}

/** Refuses a state that the history does not keep. @throws MirrorError `history.not_found` */
export function notKept(target: string, atMs: number | null): never {
  const when = atMs === null ? '' : ` as it was at ${utcTime(atMs)}`;
  throw new MirrorError('history.not_found', `The history does not keep ${target}${when}.`, {
    hint: `\`${ownCommand('history list')}\` shows what is kept; the mirror itself has the state since then.`,
  });
}
