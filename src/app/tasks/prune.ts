import { type HistoryEntry, storedBytes } from '../../mirror/store/history/history.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { pruneHistory, statesToPrune } from '../../mirror/store/publish/sweep.ts';
import { withCommonLock } from '../../mirror/store/shards.ts';
import { refuseMissing } from '../open-reader.ts';
import type { TaskWork } from './task.ts';

/** The states of the history that are meant. */
interface PruneWish {
  /** The one target, as below `mirror/`; null for all. */
  readonly target: string | null;
  /** Only states that left the mirror before this time, in milliseconds since the epoch. */
  readonly beforeMs: number;
}

/** A state that pruning removes. */
export interface PrunedState extends Pick<HistoryEntry, 'kind'> {
  readonly target: string;
  /** When it left the mirror, in milliseconds since the epoch. */
  readonly leftAtMs: number;
  readonly storedBytes: number;
}

function retentionUntil(beforeMs: number, nowMs: number) {
  const age = { kind: 'age', ageMs: nowMs - beforeMs } as const;
  return { retired: age, replaced: age };
}

/**
 * Lists the states that {@link prune} would remove. A state stays as long as an older state of its target needs its files.
 * @throws MirrorError `directory.unusable`, `disk.failed`
 */
export async function listPrunable({ settings }: TaskWork, wish: PruneWish): Promise<readonly PrunedState[]> {
  const { directory } = settings.ofDirectory();
  await refuseMissing(directory);
  const nowMs = Date.now();
  const states: PrunedState[] = [];
  for (const entry of await statesToPrune(
    layoutOf(directory),
    wish.target,
    retentionUntil(wish.beforeMs, nowMs),
    nowMs,
  ))
    states.push({
      target: entry.path,
      kind: entry.kind,
      leftAtMs: entry.atMs,
      storedBytes: await storedBytes(entry),
    });
  return states;
}

/** Removes states from the history for good; a lease keeps what is left. @throws MirrorError `directory.*`, `disk.failed` */
export function prune(
  { whileIdle, signal }: TaskWork,
  { target, beforeMs }: PruneWish,
): Promise<readonly Omit<PrunedState, 'storedBytes'>[]> {
  return whileIdle(async ({ store, emit }) => {
    const nowMs = Date.now();
    const disk = { ...store, retention: retentionUntil(beforeMs, nowMs) };
    const removed = await withCommonLock(store.layout, store.native, () =>
      pruneHistory(disk, nowMs, signal, target),
    );
    return removed.map(({ path, name, kind, atMs }) => {
      emit({ name: 'history.pruned', entry: `${path}/${name}` });
      return { target: path, kind, leftAtMs: atMs };
    });
  });
}
