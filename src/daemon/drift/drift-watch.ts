import { relative } from 'node:path';
import type { SettingsFor } from '../../config/schema.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import { unlessStateFails } from '../../mirror/state/state.ts';
import { driftNotesIn, noteDrift } from '../../app/drift-notes.ts';
import type { DriftNote } from '../../mirror/plan/record.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { summariseDrift } from '../../mirror/store/verify/examine.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import { createDriftMonitor, type DriftOptions } from './drift-monitor.ts';
import { watchTrees } from './watch-trees.ts';

/** The watch on what others do to the published trees. */
export interface DriftWatch {
  /** Sets the listener that is called, from now on, when a tree is to be repaired at once. */
  readonly onRepair: (repairNow: () => void) => void;
  /** Notes that the next pass is to repair the trees that are known to differ. @param targets those meant; null for all */
  readonly repair: (targets: readonly string[] | null) => Promise<void>;
  /** To be called after every pass. */
  readonly afterPass: () => void;
  readonly close: () => Promise<void>;
}

/**
 * A file that is changed again and again must not make the daemon poll the service as often: a tree that was repaired less
 * than this ago waits for the schedule, in milliseconds.
 */
const REPAIR_PAUSE_MS = 60_000;

/** Watches the published trees while the daemon runs, as the setting `drift` says. */
export async function startDriftWatch(
  { drift }: SettingsFor<never>,
  mirror: Mirror,
  emit: EventSink,
): Promise<DriftWatch> {
  const nothing = (): void => {};
  if (drift === 'off')
    return {
      onRepair: nothing,
      repair: () => Promise.resolve(),
      afterPass: nothing,
      close: () => Promise.resolve(),
    };
  const { store, state } = mirror;
  const { published } = await store.inventory.read();
  const notes = driftNotesIn(await unlessStateFails(state.records(), new Map()), published);
  const onUnseen = (error: unknown): void => emit({ name: 'drift.unwatched', ...eventFailure(error) });
  let repairNow = nothing;
  const reporter = createReporter(drift === 'repair' ? () => repairNow() : null, notes, mirror, emit);
  const monitor = createDriftMonitor({
    store,
    ...reporter,
    known: [...notes.keys()],
    onScanned: (done, total) => mirror.monitor.scanned(done, total),
    onError: onUnseen,
  });
  const trees = startWatching(store.layout, monitor.hint, onUnseen);
  let isLookedAt = false;
  return {
    onRepair: (listener) => {
      repairNow = listener;
    },
    repair: async (targets) => {
      for (const [target, note] of notes)
        if (targets?.includes(target) !== false)
          await noteDrift(mirror, target, { ...note, needsRepair: true });
    },
    afterPass: () => {
      const isComplete = trees.isComplete();
      // What happened while nobody watched is found once by looking at everything.
      if (!isComplete || !isLookedAt) monitor.lookAtAll();
      isLookedAt = isComplete;
    },
    close: async () => {
      await monitor.close();
      await trees.close();
    },
  };
}

/** Watches all trees, as far as that can be done. */
function startWatching(
  { root, mirror, trees }: DirectoryLayout,
  onHint: (path: string) => void,
  onUnseen: (error: unknown) => void,
): { readonly isComplete: () => boolean; readonly close: () => Promise<void> } {
  let isReady = false;
  let hasFailed = false;
  const onUnwatched = (error: unknown): void => {
    hasFailed = true;
    onUnseen(error);
  };
  const folders = [mirror, trees].map((path) => relative(root, path));
  const watch = watchTrees(root, folders, onHint, onUnwatched);
  void watch.ready.catch(onUnwatched).finally(() => (isReady = true));
  return { isComplete: () => isReady && !hasFailed, close: watch.close };
}

/** Reports drift, notes it for `status`, and requests its repair if that is wanted. */
function createReporter(
  repairNow: (() => void) | null,
  notes: Map<string, DriftNote>,
  mirror: Mirror,
  emit: EventSink,
): Pick<DriftOptions, 'onDrift' | 'onWhole'> {
  const repairedAtMs = new Map<string, number>();
  return {
    onDrift: async (target, differences) => {
      const summary = summariseDrift(differences);
      emit({ name: 'target.drifted', target, ...summary });
      const note = { ...summary, sinceMs: mirror.context.now(), needsRepair: repairNow !== null };
      notes.set(target, note);
      await noteDrift(mirror, target, note);
      if (repairNow === null) return;
      const lastMs = repairedAtMs.get(target);
      repairedAtMs.set(target, performance.now());
      if (lastMs === undefined || performance.now() - lastMs > REPAIR_PAUSE_MS) repairNow();
    },
    onWhole: async (target) => {
      emit({ name: 'target.whole', target });
      notes.delete(target);
      await noteDrift(mirror, target, null);
    },
  };
}
