import { namedPath, targetNamed } from '../../app/target-names.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { foldersWith, isTargetPath } from '../../lib/paths/file-name.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { latestFirst } from '../../lib/time/wrong-clock.ts';
import {
  type HistoryEntry,
  keptAt,
  manifestOfEntry,
  placeOf,
  readHistory,
} from '../../mirror/store/history/history.ts';
import type { TargetState } from '../../mirror/store/history/restore.ts';
import { manifestPaths, publishedManifest, readManifest } from '../../mirror/store/inventory.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { Manifest, ManifestFile } from '../../mirror/store/manifest.ts';
import { publishedTree } from '../../mirror/store/published-tree.ts';
import { entriesOf } from './history.ts';

/** Files of one state of a target. */
export interface FilesRequest {
  readonly target: string;
  /** Files or folders of its tree; all if none is named. */
  readonly paths?: readonly string[];
  /** The time of the state, in milliseconds since the epoch; null for the latest state in the history. */
  readonly atMs: number | null;
}

/** The path of a present or former target. @throws MirrorError `target.unknown` if the name means several */
export async function pathOf(layout: DirectoryLayout, asked: string): Promise<string> {
  const kept = (await readHistory(layout)).map((entry) => entry.path);
  return targetNamed(asked, layout.mirror, [...(await manifestPaths(layout)), ...kept]);
}

/** Whether a state belongs to a time. `history list` shows a time before the publish if the clock was set back in between. */
function isOf({ manifest, left }: TargetState, atMs: number | null): boolean {
  return atMs === null || manifest.publishedAtMs <= atMs || left?.atMs === atMs;
}

/** The requested state, and the requested files of it. @throws MirrorError `target.unknown`, `history.*`, `disk.failed` */
export async function lookUp(
  layout: DirectoryLayout,
  { target, paths = [], atMs }: FilesRequest,
): Promise<{ readonly state: TargetState; readonly files: readonly ManifestFile[] }> {
  const path = await pathOf(layout, target);
  const history = await readHistory(layout);
  const entries = history.filter((entry) => entry.path === path);
  const published = isTargetPath(path) ? await publishedState(layout, path) : null;
  const state = await stateAt(entries, published, atMs);
  if (state === null || !isOf(state, atMs)) {
    if (state === null) entriesOf(history, target, layout.mirror);
    return notKept(target, atMs, state?.manifest ?? null);
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
 * The state of a target at a time, or the next later one: one in the history, or the published one; null if neither is known to be it.
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
  if (entry === null) return atMs !== null && atMs <= nowMs ? published : null;
  const manifest = await manifestOfEntry(entry);
  return { path: entry.path, place: placeOf(entry), tree: entry.tree, manifest, left: entry };
}

/** The published state of a target; null if it is not mirrored, or its manifest cannot be read. */
async function publishedState(layout: DirectoryLayout, path: string): Promise<TargetState | null> {
  const manifest = await publishedManifest(layout, path).catch(() => null);
  return (
    manifest && { path, place: `mirror/${path}`, tree: publishedTree(layout, path), manifest, left: null }
  );
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
  const isBelow = (path: string): boolean => path.startsWith(`${target}/`);
  const named = namedPath(asked, mirror, isBelow);
  return isBelow(named) ? [within, named.slice(target.length + 1)] : [within];
}

/** The error for a path that a state lacks, with its nearest path, and with a state that has the path: the published or the latest one. */
async function unknownPath(
  asked: string,
  readings: readonly string[],
  state: TargetState,
  published: TargetState | null,
  entries: readonly HistoryEntry[],
): Promise<MirrorError> {
  const hints: string[] = [];
  if (chooseFiles(published?.manifest.files ?? [], readings) !== null)
    hints.push(`The mirror has it now, in ${published?.place}.`);
  for (const { atMs, manifest } of entries.toReversed()) {
    if (hints.length > 0) break;
    // One manifest at a time: each may be large.
    const { files = [] } = (await readManifest(manifest).catch(() => null)) ?? {};
    if (chooseFiles(files, readings) !== null)
      hints.push(
        `It is in the state that left the mirror at ${new Date(atMs).toISOString()}: give that as --at.`,
      );
  }
  const names = state.manifest.files.map((file) => file.path);
  const close = likely(readings.at(-1) ?? asked, [...names, ...foldersWith(names)]);
  if (close !== undefined) hints.push(`The nearest is ${JSON.stringify(close)}.`);
  const message = `${state.place} has no file or folder ${JSON.stringify(asked)}.`;
  return new MirrorError('history.not_found', message, { hint: hints.join(' ') || null });
}

/**
 * Refuses a state that the history does not keep.
 * @param found the published state at that time, or the next later one; null without one
 * @throws MirrorError `history.not_found`
 */
export function notKept(
  target: string,
  atMs: number | null,
  found: Pick<Manifest, 'publishedAtMs'> | null,
): never {
  const when = atMs === null ? '' : ` as it was at ${utcTime(atMs)}`;
  const isLater = found !== null && atMs !== null && found.publishedAtMs > atMs;
  const other = isLater
    ? ` The earliest state after that is of ${new Date(found.publishedAtMs).toISOString()}.`
    : ' The mirror itself has that state.';
  throw new MirrorError('history.not_found', `The history does not keep ${target}${when}.`, {
    hint: `\`${ownCommand('history list')}\` shows what is kept.${found === null ? '' : other}`,
  });
}
