import { MirrorError } from '../../lib/errors/errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { manifestPaths, readManifestFile } from '../../mirror/store/inventory.ts';
import type { TargetState } from '../../mirror/store/history/restore.ts';
import { type DirectoryLayout, manifestPath } from '../../mirror/store/layout.ts';
import { unknownName } from '../target-names.ts';
import { countDifferences, fileDifferences } from './file-differences.ts';

/** A state of a target on disk or in the service; `left` is null outside of the history. */
type ComparedTree = Pick<TargetState, 'manifest' | 'left'>;

/** Two states of a target, and the files that differ. */
export type DiffReport = ReturnType<typeof reportOn>;

/** One of the two states that are compared. */
export type ComparedState = ReturnType<typeof summaryOf>;

/**
 * Compares two states of a target; null for one without files.
 * @param by the comparison: of two manifests, or of the published tree with the service's contents, or with its lists alone
 */
export function reportOn(
  target: string,
  before: ComparedTree | null,
  after: ComparedTree | null,
  by: 'manifests' | 'contents' | 'lists',
) {
  const differences = fileDifferences(before?.manifest.files ?? [], after?.manifest.files ?? []);
  const counts = countDifferences(differences);
  const summaries = {
    before: summaryOf(before, 'mirror'),
    after: summaryOf(after, by === 'manifests' ? 'mirror' : 'service'),
  };
  return { target, by, ...summaries, counts, differences };
}

/**
 * The facts about a state. `changedAtMs`: when its files last changed, as the mirror saw it; `leftAtMs`: when it left the mirror. Times in
 * milliseconds since the epoch; null for no time.
 * @param place of a state that is not in the history
 */
function summaryOf(state: ComparedTree | null, place: 'mirror' | 'service') {
  const { manifest, left } = state ?? { manifest: null, left: null };
  const files = manifest?.files ?? [];
  return {
    place: manifest === null ? ('nothing' as const) : left === null ? place : ('history' as const),
    changedAtMs: place === 'service' ? null : (manifest?.publishedAtMs ?? null),
    leftAtMs: left?.atMs ?? null,
    kind: left?.kind ?? null,
    files: files.length,
    sizeBytes: files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
  };
}

/** A target on disk. */
export type TargetOnDisk = Awaited<ReturnType<typeof readTarget>>;

/**
 * Reads a target from disk, without a lock: its published state, null if it is not mirrored, and its states that left the mirror and are
 * kept, the earliest first.
 * @throws MirrorError `disk.*`
 */
export async function readTarget(layout: DirectoryLayout, path: string) {
  if (!isTargetPath(path)) return { path, published: null, kept: [] };
  // Read before the history: a publish in between then only adds a state that is known to be this one.
  const found = await readManifestFile(manifestPath(layout, path));
  const { manifest = null } = found ?? {};
  if (found !== null && manifest === null)
    throw new MirrorError('disk.failed', `The manifest of ${path} cannot be used: ${found.problem ?? ''}.`, {
      hint: `\`${ownCommand('verify --repair', path)}\` pulls the target again.`,
    });
  const kept = await readHistory(layout, path);
  const published: ComparedTree | null = manifest && { manifest, left: null };
  return { path, published, kept };
}

/** Refuses a target without data on the disk. @throws MirrorError `target.unknown` */
export async function refuseUnknown(
  layout: DirectoryLayout,
  asked: string,
  { path, published, kept }: TargetOnDisk,
): Promise<void> {
  if (published !== null || kept.length > 0) return;
  throw unknownName(
    'target.unknown',
    `No target is named ${JSON.stringify(asked)}, and none of that name left the mirror.`,
    path,
    await manifestPaths(layout),
    `\`${ownCommand('status --all')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`,
  );
}
