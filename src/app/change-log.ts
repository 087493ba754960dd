import type { HeldDeletion } from '../mirror/plan/guard.ts';
import { readHistory } from '../mirror/store/history/history.ts';
import type { TargetState } from '../mirror/store/history/restore.ts';
import { readManifest } from '../mirror/store/inventory.ts';
import { type DirectoryLayout, manifestPath } from '../mirror/store/layout.ts';
import type { ApprovalMark } from '../mirror/store/manifest.ts';
import { treeKey } from '../mirror/plan/record.ts';
import type { TargetStatus } from './target-status.ts';
import { type FileDifference, fileDifferences } from './tasks/file-differences.ts';

/**
 * The kinds of events in the log of a mirror.
 *
 * - `published`: the earliest state that is kept, or the first one after its target had left.
 * - `changed`: files changed.
 * - `restored`: a person brought the tree back from the history.
 * - `retired`: the tree left the mirror for the history.
 * - `held`: a deletion waits for approval.
 * - `approved`: a person approved a deletion.
 */
export const LOG_KINDS = ['published', 'changed', 'restored', 'retired', 'held', 'approved'] as const;

/** An event in the log of a mirror. */
export interface LogEntry {
  readonly target: string;
  /** When it happened in the mirror: a change is readable from then on. Milliseconds since the epoch. */
  readonly atMs: number;
  readonly kind: (typeof LOG_KINDS)[number];
  /** How many files it is about. */
  readonly files: number;
  /** The approval of the deletion; null if none is recorded. */
  readonly approval: ApprovalMark | null;
  /** The held deletion; null for everything else. */
  readonly held: Omit<HeldDeletion, 'first'> | null;
  /** The files that changed, sorted by path. */
  readonly differences: readonly FileDifference[];
}

/** A state of a target, and when and why it left the mirror; null for the published one. */
export type LoggedState = Pick<TargetState, 'manifest' | 'left'>;

const NOTHING = { files: 0, approval: null, held: null, differences: [] } as const;

/** Whether a state is a change of the one before: not if a person restored it, or if another repository had its name before. */
function follows({ manifest }: LoggedState, before: LoggedState): boolean {
  const isSame = treeKey(manifest) === treeKey(before.manifest);
  return isSame && manifest.restoredAtMs === null;
}

/** The log of one target, latest first. @param states its states on disk, latest first; no more are read than needed */
export async function* logOf(
  target: string,
  states: Iterable<LoggedState> | AsyncIterable<LoggedState>,
): AsyncGenerator<LogEntry, void> {
  const entry = (kind: LogEntry['kind'], atMs: number, fields: Partial<LogEntry>): LogEntry => {
    return { ...NOTHING, target, atMs, kind, ...fields };
  };
  const published = ({ manifest: { files, publishedAtMs, restoredAtMs } }: LoggedState): LogEntry =>
    entry(restoredAtMs === null ? 'published' : 'restored', publishedAtMs, { files: files.length });
  let later: LoggedState | null = null;
  for await (const state of states) {
    const { manifest, left } = state;
    const { approval = null } = manifest;
    const isRetired = left?.kind === 'retired';
    // A state that a person let be replaced is kept as a retired one, and its successor was made before it left.
    const isGone = isRetired && (later === null || later.manifest.publishedAtMs > left.atMs);
    if (later !== null && (isGone || !follows(later, state))) yield published(later);
    else if (later !== null) {
      const { publishedAtMs } = later.manifest;
      const differences = fileDifferences(manifest.files, later.manifest.files);
      const files = differences.length;
      if (isRetired) yield entry('approved', publishedAtMs, { files, approval });
      if (files > 0) yield entry('changed', publishedAtMs, { files, differences });
    }
    if (isGone) yield entry('retired', left.atMs, { files: manifest.files.length, approval });
    later = state;
  }
  if (later !== null) yield published(later);
}

/** The states of a target that the disk has, the latest first. A manifest that cannot be read is left out. */
async function* statesOf(layout: DirectoryLayout, target: string): AsyncGenerator<LoggedState, void> {
  const published = await readManifest(manifestPath(layout, target)).catch(() => null);
  if (published !== null) yield { manifest: published, left: null };
  const kept = await readHistory(layout, target);
  for (const { kind, atMs, manifest: file } of kept.toReversed()) {
    const manifest = await readManifest(file).catch(() => null);
    if (manifest !== null) yield { manifest, left: { kind, atMs } };
  }
}

/** A part of the log. */
export interface LogSource {
  readonly target: string;
  /** Nothing in it is later. Milliseconds since the epoch. */
  readonly lastAtMs: number;
  /** Reads its entries, the latest first. */
  readonly read: () => Iterator<LogEntry, void> | AsyncIterator<LogEntry, void>;
}

/** The parts of the log of a mirror, the latest first. None is read yet. */
export async function logSources(
  layout: DirectoryLayout,
  statuses: readonly TargetStatus[],
): Promise<LogSource[]> {
  // Also former paths, whose repository was renamed.
  const last = new Map((await readHistory(layout)).map(({ path, atMs }) => [path, atMs]));
  for (const { target, changedAtMs } of statuses)
    last.set(target, Math.max(changedAtMs ?? 0, last.get(target) ?? 0));
  const trees = [...last].map(([target, lastAtMs]): LogSource => {
    return { target, lastAtMs, read: () => logOf(target, statesOf(layout, target)) };
  });
  const holds = statuses.flatMap(({ target, files, held }): LogSource[] => {
    if (held === null) return [];
    const entry: LogEntry = { ...NOTHING, target, atMs: held.sinceMs, kind: 'held', files, held };
    return [{ target, lastAtMs: held.sinceMs, read: () => [entry].values() }];
  });
  return [...trees, ...holds].sort((a, b) => b.lastAtMs - a.lastAtMs);
}

/** The entries of all parts, the latest first. A part is read no further than for the entries that were taken. @param sources the latest first */
export async function* mergedLog(sources: readonly LogSource[]): AsyncGenerator<LogEntry, void> {
  const waiting = sources.map(({ lastAtMs, read }) => {
    return { atMs: lastAtMs, entry: null as LogEntry | null, rest: read() };
  });
  for (let first = waiting.shift(); first !== undefined; first = waiting.shift()) {
    const { entry, rest } = first;
    if (entry !== null) yield entry;
    const { done, value } = await rest.next();
    if (done === true) continue;
    const place = waiting.findIndex(({ atMs }) => atMs <= value.atMs);
    waiting.splice(place === -1 ? waiting.length : place, 0, { atMs: value.atMs, entry: value, rest });
  }
}
