import { MirrorError } from '../../lib/errors/errors.ts';
import { leadsBelow } from '../../lib/paths/file-name.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { type HistoryEntry, readHistory } from '../../mirror/store/history/history.ts';
import { manifestPaths, readStampedManifest } from '../../mirror/store/inventory.ts';
import type { DirectoryLayout, HistoryKind } from '../../mirror/store/layout.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { unknownName } from '../target-names.ts';
import {
  countDifferences,
  type DifferenceCounts,
  type FileDifference,
  fileDifferences,
} from './file-differences.ts';

/** The place of a state: the mirror, the history, the service, or none if it has no files. */
export type Place = 'mirror' | 'history' | 'service' | 'nothing';

/** A state of a target. */
export interface TargetState {
  readonly place: Place;
  /** Null for nothing. */
  readonly manifest: Manifest | null;
  /** Why and when it left the mirror, in milliseconds since the epoch; null outside of the history. */
  readonly left: { readonly kind: HistoryKind; readonly atMs: number } | null;
}

/** The state of a target that has no files. */
export const NOTHING: TargetState = { place: 'nothing', manifest: null, left: null };

/** Two states of a target, and the files that differ. */
export interface DiffReport {
  readonly target: string;
  /** The comparison: of two manifests, or of the published tree with the service's contents, or with its lists alone. */
  readonly by: 'manifests' | 'contents' | 'lists';
  readonly before: ComparedState;
  readonly after: ComparedState;
  readonly counts: DifferenceCounts;
  /** Sorted by path. */
  readonly differences: readonly FileDifference[];
}

/** One of the two states that are compared. Times in milliseconds since the epoch; null for no time. */
export interface ComparedState {
  readonly place: Place;
  /** When its files last changed, as the mirror saw it. */
  readonly changedAtMs: number | null;
  /** When it left the mirror, and why; of the history alone. */
  readonly leftAtMs: number | null;
  readonly kind: HistoryKind | null;
  readonly files: number;
  readonly sizeBytes: number;
}

/** Compares two states of a target. */
export function reportOn(
  target: string,
  before: TargetState,
  after: TargetState,
  by: DiffReport['by'],
): DiffReport {
  const differences = fileDifferences(before.manifest?.files ?? [], after.manifest?.files ?? []);
  const counts = countDifferences(differences);
  return { target, by, before: summaryOf(before), after: summaryOf(after), counts, differences };
}

function summaryOf({ place, manifest, left }: TargetState): ComparedState {
  const files = manifest?.files ?? [];
  return {
    place,
    changedAtMs: place === 'service' ? null : (manifest?.publishedAtMs ?? null),
    leftAtMs: left?.atMs ?? null,
    kind: left?.kind ?? null,
    files: files.length,
    sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  };
}

/** A target on disk. */
export interface TargetOnDisk {
  /** As below `mirror/`. */
  readonly path: string;
  /** Without files if it is not mirrored. */
  readonly published: TargetState;
  /** Its states that left the mirror and are kept, the earliest first. */
  readonly kept: readonly HistoryEntry[];
}

/** Reads a target from disk, without a lock. @throws MirrorError `disk.*` */
export async function readTarget(layout: DirectoryLayout, path: string): Promise<TargetOnDisk> {
  // Read before the history: a publish in between then only adds a state that is known to be this one.
  if (!leadsBelow(path)) return { path, published: NOTHING, kept: [] };
  const found = await readStampedManifest(layout, path);
  if (found !== null && found.manifest === null)
    throw new MirrorError('disk.failed', `The manifest of ${path} cannot be used: ${found.problem ?? ''}.`, {
      hint: `\`${ownCommand('verify --repair', path)}\` pulls the target again.`,
    });
  const published: TargetState =
    found === null ? NOTHING : { place: 'mirror', manifest: found.manifest, left: null };
  const kept = (await readHistory(layout, path)).filter((entry) => entry.path === path);
  return { path, published, kept };
}

/** Refuses a target without data on the disk. @throws MirrorError `target.unknown` */
export async function refuseUnknown(
  layout: DirectoryLayout,
  asked: string,
  { path, published, kept }: TargetOnDisk,
): Promise<void> {
  if (published.manifest !== null || kept.length > 0) return;
  throw unknownName(
    'target.unknown',
    `No target is named ${JSON.stringify(asked)}, and none of that name left the mirror.`,
    path,
    await manifestPaths(layout),
    `\`${ownCommand('status')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`,
  );
}
