import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createDriftMonitor, type DriftOptions } from './drift-monitor.ts';
import { type TreeWatch, watchTrees } from './watch-trees.ts';
import { summariseDrift } from '../../mirror/store/verify/drift.ts';
import { eventFailure, type EventSink } from '../../mirror/pass/events.ts';
import type { DriftNote } from '../../mirror/plan/target-status.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';
import type { Mirror } from '../start/open-mirror.ts';

/** The watch on what others do to the published trees. */
export interface DriftWatch {
  /** Has everything that is known to differ put right with the next pass. */
  readonly repairAll: () => void;
  /** To be called after every pass. */
  readonly afterPass: () => void;
  readonly close: () => Promise<void>;
}

/** Hints that come within this time are looked at together, in milliseconds. */
const SETTLE_MS = 500;

/**
 * Whoever changes a mirrored file again and again must not make the daemon poll the service as often: a tree that was
 * repaired less than this ago waits for the schedule, in milliseconds.
 */
const REPAIR_PAUSE_MS = 60_000;

/** Watches the published trees while the daemon runs, as the setting `drift` says. */
export async function startDriftWatch(
  settings: SettingsFor<never>,
  mirror: Mirror,
  repairNow: () => void,
  emit: EventSink,
): Promise<DriftWatch> {
  if (settings.drift === 'off')
    return { repairAll: () => {}, afterPass: () => {}, close: () => Promise.resolve() };
  const { store, state } = mirror;
  const notes = new Map(Object.entries(await tolerateStateFailure(emit, state.drift, {})));
  let hasFailed = false;
  const onUnseen = unseenReporter(emit);
  const onUnwatched = (error: unknown): void => {
    hasFailed = true;
    onUnseen(error);
  };
  const { saved, ...reporter } = createReporter(
    settings.drift === 'repair' ? repairNow : null,
    notes,
    mirror,
    emit,
  );
  const monitor = createDriftMonitor({
    targetOf: store.targetOf,
    targets: async () => (await store.published()).map(({ path }) => path),
    findDrift: store.findDrift,
    sharersOf: store.sharersOf,
    ...reporter,
    known: [...notes.keys()],
    onScanned: (done, total) => mirror.monitor.scanned(done, total),
    onError: onUnseen,
    settleMs: SETTLE_MS,
  });
  let isReady = false;
  let isLookedAt = false;
  const watching = watchTrees(store.layout.mirror, monitor.hint, onUnwatched)
    .then((watch: TreeWatch | null) => {
      isReady = true;
      return watch;
    })
    .catch((error: unknown) => {
      onUnwatched(error);
      return null;
    });
  return {
    repairAll: () => {
      for (const target of notes.keys()) store.drifted.add(target);
    },
    afterPass: () => {
      // What happened while nobody watched is found once by looking at everything.
      const isWatched = isReady && !hasFailed;
      if (!isWatched || !isLookedAt) monitor.lookAtAll();
      isLookedAt = isWatched;
    },
    close: async () => {
      await monitor.close();
      await saved();
      await (await watching)?.close();
    },
  };
}

function unseenReporter(emit: EventSink): (error: unknown) => void {
  return (error) => emit({ name: 'drift.unwatched', ...eventFailure(error) });
}

/** Says what was found, notes it for `status`, and has it repaired if that is wanted. */
function createReporter(
  repairNow: (() => void) | null,
  notes: Map<string, DriftNote>,
  { store, state, context }: Mirror,
  emit: EventSink,
): Pick<DriftOptions, 'onDrift' | 'onWhole'> & { readonly saved: () => Promise<void> } {
  const repairedAtMs = new Map<string, number>();
  const saves = createSerialQueue();
  const save = (): Promise<void> => {
    const write = (): Promise<void> => state.saveDrift(Object.fromEntries(notes));
    return saves.run(() => tolerateStateFailure(emit, write, undefined));
  };
  return {
    saved: saves.done,
    onDrift: async (target, differences) => {
      const summary = summariseDrift(differences);
      emit({ name: 'target.drifted', target, ...summary });
      notes.set(target, { ...summary, sinceMs: context.now() });
      await save();
      if (repairNow === null) return;
      store.drifted.add(target);
      const lastMs = repairedAtMs.get(target);
      repairedAtMs.set(target, performance.now());
      if (lastMs === undefined || performance.now() - lastMs > REPAIR_PAUSE_MS) repairNow();
    },
    onWhole: async (target) => {
      emit({ name: 'target.whole', target });
      notes.delete(target);
      store.drifted.delete(target);
      await save();
    },
  };
}
