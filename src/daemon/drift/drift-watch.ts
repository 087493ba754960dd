import { dirname, join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

import { driftNotesIn, noteDrift } from '../../app/drift-notes.ts';
import type { EventSink } from '../../app/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { DriftNote } from '../../mirror/plan/record.ts';
import { examineTarget, summariseDrift } from '../../mirror/store/verify/examine.ts';
import { TreeWatch } from './tree-watch.ts';

/**
 * A file that changes constantly must not make the daemon poll the service constantly: a tree repaired within
 * this time waits for the schedule, in milliseconds.
 */
const REPAIR_PAUSE_MS = 60_000;

/** Hints within this time of the first one are handled together, in milliseconds. */
const SETTLE_MS = 500;

/** Delay before comparing a tree that changed during the last comparison, in milliseconds: reading a big one takes seconds. */
const REST_MS = 5000;

/**
 * Watches for changes that others make to the published trees, as the setting `drift` says; null if it is off.
 * @param repairNow called when a tree must be repaired immediately
 */
export async function startDriftWatch(
  { drift }: SettingsFor<never>,
  mirror: Mirror,
  emit: EventSink,
  repairNow: () => void,
): Promise<TreeChecks | null> {
  if (drift === 'off') return null;
  const { published } = await mirror.store.inventory.read();
  const notes = driftNotesIn(await mirror.state.records().catch(() => new Map()), published);
  return new TreeChecks(mirror, emit, drift === 'repair' ? repairNow : null, notes);
}

/**
 * Finds changed trees, records them for `status`, and requests repairs if wanted. Hints only say where to look:
 * the tree is compared with its manifest.
 */
class TreeChecks {
  readonly #mirror: Mirror;
  readonly #emit: EventSink;
  readonly #repairNow: (() => void) | null;
  /** The notes in the records about trees that differed at the last look; null if a pass has removed it since. */
  readonly #drifted: Map<string, DriftNote | null>;
  readonly #askedAtMs = new Map<string, number>();
  /** Hints: paths below the directory. */
  readonly #hints = new Set<string>();
  /** Whether all trees must be compared, to find changes from before the watch was complete. */
  #isAllHinted = false;
  /** Whether all were compared under a complete watch. */
  #isLookedAt = false;
  readonly #looks = createBackgroundWork(
    ({ stop }) => this.#lookAtHints(stop),
    (error) => this.#reportUnseen(error),
  );
  readonly #watch: TreeWatch;

  /**
   * @param repairNow null if differing trees are only reported
   * @param notes about trees that differed when last compared, by target
   */
  constructor(
    mirror: Mirror,
    emit: EventSink,
    repairNow: (() => void) | null,
    notes: ReadonlyMap<string, DriftNote>,
  ) {
    this.#mirror = mirror;
    this.#emit = emit;
    this.#repairNow = repairNow;
    this.#drifted = new Map(notes);
    const { root, mirror: targets, trees } = mirror.store.layout;
    const folders = [targets, trees].map((path) => relative(root, path));
    this.#watch = new TreeWatch(root, folders, this.#hint, this.#reportUnseen);
  }

  /** Call it after every pass. */
  afterPass(): void {
    const { root, mirror } = this.#mirror.store.layout;
    const { isWhole } = this.#watch;
    this.#isAllHinted ||= !isWhole || !this.#isLookedAt;
    this.#isLookedAt = isWhole;
    // The pass may have repaired the trees that differed, and someone may have changed them since.
    for (const target of this.#drifted.keys()) this.#hints.add(join(relative(root, mirror), target));
    this.#looks.wake();
  }

  async close(): Promise<void> {
    await this.#looks.close(0);
    await this.#watch.close();
  }

  /** Something may have changed at a path below the directory. */
  readonly #hint = (path: string): void => {
    this.#hints.add(path);
    this.#looks.wake();
  };

  readonly #reportUnseen = (error: unknown): void =>
    this.#emit({ name: 'drift.unwatched', ...eventFailure(error) });

  async #lookAtHints(stop: AbortSignal): Promise<void> {
    const isStopped = (): boolean => stop.aborted;
    let pauseMs = SETTLE_MS;
    while (this.#isAllHinted || this.#hints.size > 0) {
      await sleep(pauseMs, undefined, { signal: stop }).catch(() => {});
      if (isStopped()) return;
      const onScanned = this.#isAllHinted ? this.#mirror.monitor : null;
      const targets = await this.#takeTargets();
      await this.#forgetRepaired();
      for (const [index, target] of targets.entries()) {
        onScanned?.scanned(index, targets.length);
        // An unreadable tree must not stop the comparison of others.
        await this.#lookAt(target, stop).catch((error: unknown) => {
          if (!stop.aborted) this.#reportUnseen(error);
        });
        if (isStopped()) return;
      }
      onScanned?.scanned(targets.length, targets.length);
      pauseMs = REST_MS;
    }
  }

  /** Takes all hints, as targets. */
  async #takeTargets(): Promise<string[]> {
    const { store } = this.#mirror;
    const isAll = this.#isAllHinted;
    const paths = [...this.#hints];
    const targets = new Set<string>();
    this.#isAllHinted = false;
    this.#hints.clear();
    for (const path of paths) {
      // Replacing a whole tree gives a hint for every file of the new one.
      if (isBelowOne(targets, path)) continue;
      const target = await store.inventory.targetAt(path);
      if (target !== null) targets.add(target);
    }
    if (isAll) {
      for (const { path } of (await store.inventory.read()).published) targets.add(path);
      // A tree that is no longer published no longer differs.
      for (const target of this.#drifted.keys()) targets.add(target);
    }
    return [...targets];
  }

  /** Forgets the notes that a pass has removed: every later difference is news, even if it looks like the repaired one. */
  async #forgetRepaired(): Promise<void> {
    if (this.#drifted.size === 0) return;
    const { store, state } = this.#mirror;
    const records = await state.records().catch(() => null);
    if (records === null) return;
    const notes = driftNotesIn(records, (await store.inventory.read()).published);
    for (const target of this.#drifted.keys()) if (!notes.has(target)) this.#drifted.set(target, null);
  }

  /** Reports how a tree differs, if that is news. */
  async #lookAt(target: string, stop: AbortSignal): Promise<void> {
    // It differs because its publish must still be completed.
    if (this.#mirror.store.unfinished.has(target)) return;
    const options = { depth: 'facts', signal: stop } as const;
    const examined = await examineTarget(this.#mirror.store.layout, target, options);
    const { differences = [], lookedAtMs: sinceMs = 0 } = examined ?? {};
    const before = this.#drifted.get(target);
    if (differences.length === 0) {
      if (!this.#drifted.delete(target)) return;
      await noteDrift(this.#mirror, target, null);
      this.#emit({ name: 'target.whole', target });
      return;
    }
    const summary = summariseDrift(differences);
    const needsRepair = this.#repairNow !== null;
    const isKnown = isDeepStrictEqual(before, { ...before, ...summary });
    if (isKnown && (before?.needsRepair === true || !needsRepair)) return;
    const note = { ...summary, sinceMs, needsRepair };
    const isNoted = await noteDrift(this.#mirror, target, note);
    if (isNoted) this.#drifted.set(target, note);
    // No pass knows of that tree, and another hint may never come.
    else this.#isLookedAt = false;
    // Save first: a listener that reads the records must find the news there.
    this.#emit({ name: 'target.drifted', target, ...summary });
    if (isNoted && needsRepair) this.#askForRepair(target);
  }

  #askForRepair(target: string): void {
    const nowMs = performance.now();
    const lastMs = this.#askedAtMs.get(target) ?? Number.NEGATIVE_INFINITY;
    this.#askedAtMs.set(target, nowMs);
    if (nowMs - lastMs > REPAIR_PAUSE_MS) this.#repairNow?.();
  }
}

/** Whether a path is one of these or lies below one. */
function isBelowOne(folders: ReadonlySet<string>, path: string): boolean {
  for (let folder = path; folder !== '.'; folder = dirname(folder)) if (folders.has(folder)) return true;
  return false;
}
