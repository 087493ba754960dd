import { type HistoryEntry, storedBytes } from '../../mirror/store/history/history.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { pruneHistory, statesToPrune } from '../../mirror/store/publish/sweep.ts';
import { withCommonLock } from '../../mirror/store/shards.ts';
import { refuseMissing } from '../open-reader.ts';
import type { RequestOf } from './requests.ts';
import type { TaskWork } from './task.ts';

/** The retention by which states go that left before a time. */
function retentionUntil(beforeMs: number, nowMs: number) {
  const age = { kind: 'age', ageMs: nowMs - beforeMs } as const;
  return { retired: age, replaced: age };
}

/** A state that pruning removes. */
export type PrunedState = Awaited<ReturnType<typeof listPrunable>>[number];

/**
 * Lists the states that {@link prune} would remove. A state stays as long as an older state of its target needs its files.
 * @throws MirrorError `directory.unusable`, `disk.failed`
 */
export async function listPrunable({ settings }: TaskWork, { target, beforeMs }: RequestOf<'prunable'>) {
  const { directory } = settings.ofDirectory();
  await refuseMissing(directory);
  const nowMs = Date.now();
  const retention = retentionUntil(beforeMs, nowMs);
  const states = [];
  for (const entry of await statesToPrune(layoutOf(directory), target, retention, nowMs))
    states.push({ ...prunedState(entry), storedBytes: await storedBytes(entry) });
  return states;
}

function prunedState({ path, kind, atMs }: HistoryEntry) {
  return { target: path, kind, leftAtMs: atMs };
}

/** Removes states from the history for good; a lease keeps what is left. @throws MirrorError `directory.*`, `disk.failed` */
export function prune({ whileIdle, signal }: TaskWork, { target, beforeMs }: RequestOf<'prune'>) {
  return whileIdle(async ({ store, emit }) => {
    const nowMs = Date.now();
    const disk = { ...store, retention: retentionUntil(beforeMs, nowMs) };
    const removed = await withCommonLock(store.layout, store.native, () =>
      pruneHistory(disk, nowMs, signal, target),
    );
    for (const { path, name } of removed) emit({ name: 'history.pruned', entry: `${path}/${name}` });
    return removed.map(prunedState);
  });
}
