import type { SettingsFor } from '../../config/schema.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { likely } from '../../lib/text/nearest.ts';
import { type HistoryEntry, readHistory } from '../../mirror/store/history/history.ts';
import {
  findFiles,
  restoreInto,
  sizeOf,
  type TargetState,
  writeFound,
} from '../../mirror/store/history/restore.ts';
import { manifestPaths, readManifest, readStampedManifest } from '../../mirror/store/inventory.ts';
import { type DirectoryLayout, layoutOf } from '../../mirror/store/layout.ts';
import { foldersWith, type Manifest, type ManifestFile } from '../../mirror/store/manifest.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { entriesOf } from './history.ts';
import {
  folderOutside,
  interruptible,
  keptState,
  notKept,
  type Restored,
  type RestoreWork,
} from './restore-tree.ts';
import { namedPath, targetNamed } from '../frame/target-names.ts';

/** Files of one state of a target. */
export interface FilesRequest {
  readonly target: string;
  /** Files, or folders, of its tree; one at least. */
  readonly paths: readonly string[];
  /** The state that the mirror had then, in milliseconds since the epoch; null for the latest that the history keeps. */
  readonly atMs: number | null;
}

type OnWork = (doing: RestoreWork, bytes: number, totalBytes: number) => void;

/**
 * Copies files into a folder that does not exist yet, with their own folders; works beside a running daemon.
 * @throws MirrorError `usage.invalid`, `target.unknown`, `history.*`, `disk.*`, `pass.abandoned`
 */
export async function restoreFilesInto(
  to: string,
  settings: SettingsFor<'directory'>,
  request: FilesRequest,
  onBytes: OnWork,
): Promise<Restored> {
  const layout = layoutOf(settings.directory);
  const folder = await folderOutside(to, layout.root);
  return interruptible(async (signal) => {
    const { state, chosen } = await lookUp(layout, request);
    const files = [...new Set(chosen.flatMap((each) => each.files))];
    const found = await findFiles(layout, state, files, signal, (...args) => onBytes('checking', ...args));
    await restoreInto(folder, found, signal, (...args) => onBytes('copying', ...args));
    return { ...restoredOf(state, files), folder };
  });
}

/**
 * Writes the bytes of one file somewhere, once they were read and found right; where they change after that, it fails amid them.
 * @throws MirrorError as {@link restoreFilesInto}; `usage.invalid` for what is no single file
 */
export async function writeFile(
  settings: SettingsFor<'directory'>,
  request: FilesRequest,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<Omit<Restored, 'folder'>> {
  const layout = layoutOf(settings.directory);
  const { state, chosen } = await lookUp(layout, request);
  const [only] = chosen;
  if (only?.kind !== 'file') {
    throw new MirrorError('usage.invalid', `${JSON.stringify(request.paths[0])} is a folder.`, {
      hint: 'Standard output takes one file. Give a folder for it and all below it: --to FOLDER.',
    });
  }
  // Nothing to be put in order: where a signal ends it, or the reader does, the process ends.
  const found = await findFiles(layout, state, only.files, new AbortController().signal, () => {});
  await writeFound(found, write);
  return restoredOf(state, only.files);
}

function restoredOf(
  { path, leftAtMs }: TargetState,
  files: readonly ManifestFile[],
): Omit<Restored, 'folder'> {
  return { target: path, leftAtMs, files: files.length, sizeBytes: sizeOf(files) };
}

/** A state, and what paths mean in it. */
interface LookedUp {
  readonly state: TargetState;
  readonly chosen: readonly Chosen[];
}

async function lookUp(layout: DirectoryLayout, { target, paths, atMs }: FilesRequest): Promise<LookedUp> {
  const history = await readHistory(layout);
  const known = [...(await manifestPaths(layout)), ...history.map((entry) => entry.path)];
  const path = targetNamed(target, layout.mirror, known);
  const entries = history.filter((entry) => entry.path === path);
  const state = await stateAt(layout, path, entries, atMs);
  if (state === null) {
    entriesOf(history, target, layout.mirror);
    return notKept(target, atMs);
  }
  const chosen: Chosen[] = [];
  for (const asked of paths) {
    const readings = readingsOf(asked, path, layout.mirror);
    const found = chooseFiles(state.manifest.files, readings);
    if (found === null) throw await unknownPath(layout, asked, readings, state, entries);
    chosen.push(found);
  }
  return { state, chosen };
}

/**
 * The state of a target that the mirror had at a time, in the history or, where it did not change since, the one that is published;
 * null where neither is known to be.
 * @param atMs as for {@link keptState}, which null is left to
 * @throws MirrorError as {@link keptState}
 */
async function stateAt(
  layout: DirectoryLayout,
  path: string,
  entries: readonly HistoryEntry[],
  atMs: number | null,
): Promise<TargetState | null> {
  const kept = await keptState(entries, atMs);
  // The history knows nothing of the time after now.
  if (kept !== null || atMs === null || atMs > Date.now()) return kept;
  const published = await publishedState(layout, path);
  return published === null || published.manifest.publishedAtMs > atMs ? null : published;
}

/** The state of a target that is published; null where it is not mirrored. @throws MirrorError `disk.failed` */
async function publishedState(layout: DirectoryLayout, path: string): Promise<TargetState | null> {
  if (!isTargetPath(path)) return null;
  return onDisk('reading a manifest', async () => {
    const manifest = (await readStampedManifest(layout, path))?.manifest ?? null;
    if (manifest === null) return null;
    return { path, place: `mirror/${path}`, tree: publishedTree(layout, path), manifest, leftAtMs: null };
  });
}

/** The files of a tree that a path means. */
export type Chosen =
  | { readonly kind: 'file'; readonly files: readonly ManifestFile[] }
  /** All below a folder. */
  | { readonly kind: 'folder'; readonly files: readonly ManifestFile[] };

/**
 * The files of a tree that a person means by a path: a file or, else, all below a folder. A path in another Unicode form, which looks
 * the same, also finds a file if only one fits.
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

/** The ways to read a path that a person gives: as one within the tree, or as one of the mirror, on disk or below `mirror/`. */
function readingsOf(asked: string, target: string, mirror: string): string[] {
  const within = asked.replace(/^(?:\.\/)+/, '').replace(/\/+$/, '');
  const named = namedPath(asked, mirror);
  return named.startsWith(`${target}/`) ? [within, named.slice(target.length + 1)] : [within];
}

/** The error for a path that a state has not: with the nearest that it has, or with the state that has the path. */
async function unknownPath(
  layout: DirectoryLayout,
  asked: string,
  readings: readonly string[],
  state: TargetState,
  entries: readonly HistoryEntry[],
): Promise<MirrorError> {
  const names = state.manifest.files.map((file) => file.path);
  const close = likely(readings.at(-1) ?? asked, [...names, ...foldersWith(names)]);
  const elsewhere = await stateWith(layout, state.path, readings, entries);
  const hints = [
    ...(elsewhere === null ? [] : [elsewhere]),
    ...(close === undefined ? [] : [`The nearest is ${JSON.stringify(close)}.`]),
  ];
  const message = `${state.place} has no file or folder ${JSON.stringify(asked)}.`;
  return new MirrorError('history.not_found', message, hints.length === 0 ? {} : { hint: hints.join(' ') });
}

/** Says where else a target has a path: as it is published, or else in the latest state that has it. */
async function stateWith(
  layout: DirectoryLayout,
  path: string,
  readings: readonly string[],
  entries: readonly HistoryEntry[],
): Promise<string | null> {
  const has = (manifest: Manifest | null | undefined): boolean =>
    chooseFiles(manifest?.files ?? [], readings) !== null;
  const published = await publishedState(layout, path);
  if (has(published?.manifest)) return `The mirror has it now, in mirror/${path}.`;
  // One after the other: a manifest may be great.
  for (const { atMs, manifest } of entries.toReversed())
    if (has(await readManifest(manifest).catch(() => null)))
      return `It is in the state that left the mirror at ${new Date(atMs).toISOString()}: give that as --at.`;
  return null;
}
