import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { likely } from '../../lib/text/nearest.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { formatRetention } from '../../config/plan-settings.ts';
import {
  keptAt,
  type HistoryEntry,
  manifestOfEntry,
  readHistory,
} from '../../mirror/store/history/history.ts';
import type { HistoryKind, DirectoryLayout } from '../../mirror/store/layout.ts';
import type { PresentState } from '../../app/tasks/present-state.ts';
import { manifestPaths, readStampedManifest } from '../../mirror/store/inventory.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import { notKept } from '../history/restore.ts';

/** Where a state of a target is: in the mirror, in the history, in the service, or nowhere, as it has no files. */
export type Place = 'mirror' | 'history' | 'service' | 'nothing';

/** A state of a target. */
export interface TargetState {
  readonly place: Place;
  /** Null for nothing. */
  readonly manifest: Manifest | null;
  /** Why, and when, it left the mirror; null for what is not of the history. Milliseconds since the epoch. */
  readonly left: { readonly kind: HistoryKind; readonly atMs: number } | null;
}

/** The state of a target that has no files. */
const NOTHING: TargetState = { place: 'nothing', manifest: null, left: null };

/** The state that the service has now. */
export function stateInService({ manifest }: PresentState): TargetState {
  return manifest === null ? NOTHING : { place: 'service', manifest, left: null };
}

/** A target, and what the disk has of it. */
export interface TargetOnDisk {
  /** As below `mirror/`. */
  readonly path: string;
  /** Nothing where it is not mirrored now. */
  readonly published: TargetState;
  /** What left the mirror of it and is kept, the earliest first. */
  readonly kept: readonly HistoryEntry[];
}

/** Reads what the disk has of a target: no lock is taken. @throws MirrorError `disk.*` */
export async function readTarget(layout: DirectoryLayout, path: string): Promise<TargetOnDisk> {
  // Before the history: a publish meanwhile then only adds a state that is known to be this one.
  if (!isPlainPath(path)) return { path, published: NOTHING, kept: [] };
  const published = await readPublished(layout, path);
  const kept = (await readHistory(layout, path)).filter((entry) => entry.path === path);
  return { path, published, kept };
}

/** Whether a path leads to something below a folder that it is joined to. */
function isPlainPath(path: string): boolean {
  return path.split('/').every((segment) => !['', '.', '..'].includes(segment));
}

async function readPublished(layout: DirectoryLayout, path: string): Promise<TargetState> {
  const found = await readStampedManifest(layout, path);
  if (found === null) return NOTHING;
  if (found.manifest !== null) return { place: 'mirror', manifest: found.manifest, left: null };
  throw new MirrorError('disk.failed', `The manifest of ${path} cannot be used: ${found.problem ?? ''}.`, {
    hint: `\`${ownCommand('verify --repair', path)}\` pulls the target anew.`,
  });
}

/** Refuses a target of which the disk has nothing. @throws MirrorError `target.unknown` */
export async function refuseUnknown(
  layout: DirectoryLayout,
  asked: string,
  { path, published, kept }: TargetOnDisk,
): Promise<void> {
  if (published.manifest !== null || kept.length > 0) return;
  const close = likely(path, await manifestPaths(layout));
  const lists = `\`${ownCommand('status')}\` lists all targets, \`${ownCommand('history list')}\` what left the mirror.`;
  throw new MirrorError(
    'target.unknown',
    `No target is named ${JSON.stringify(asked)}, and none of that name left the mirror.`,
    { hint: close === undefined ? lists : `The nearest is ${close}. ${lists}` },
  );
}

/**
 * The state before the published one, or the last one of what is mirrored no longer.
 * @throws MirrorError `history.not_found`, `history.damaged`, `disk.*`
 */
export async function stateBefore(
  { path, published, kept }: TargetOnDisk,
  { history: { replaced } }: Pick<SettingsFor<never>, 'history'>,
): Promise<TargetState> {
  for (const entry of kept.toReversed()) {
    const state = await stateOfEntry(entry);
    // One that was published while the two were read stands in both places.
    if (state.manifest?.publishedAtMs !== published.manifest?.publishedAtMs) return state;
  }
  const others = `\`${ownCommand('diff --upstream', path)}\` compares it with what the service has now.`;
  throw new MirrorError('history.not_found', `The history keeps no state of ${path} before this one.`, {
    hint:
      replaced.kind === 'off'
        ? `In these settings history.replaced is off: with 10, or 30d, what a newer version replaces is kept from then on. ${others}`
        : `In these settings history.replaced keeps ${formatRetention(replaced)}: nothing of it was replaced since, or it is pruned. ${others}`,
  });
}

/**
 * The state that the mirror had at a time.
 * @param timeMs milliseconds since the epoch
 * @throws MirrorError `history.not_found`, `history.damaged`, `disk.*`
 */
export async function stateAt({ path, published, kept }: TargetOnDisk, timeMs: number): Promise<TargetState> {
  const entry = keptAt(kept, timeMs, Date.now());
  const state = entry === null ? published : await stateOfEntry(entry);
  return state.manifest === null || state.manifest.publishedAtMs > timeMs ? notKept(path, timeMs) : state;
}

async function stateOfEntry(entry: HistoryEntry): Promise<TargetState> {
  const { kind, atMs } = entry;
  return { place: 'history', manifest: await manifestOfEntry(entry), left: { kind, atMs } };
}
