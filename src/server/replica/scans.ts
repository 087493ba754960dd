import { setTimeout as sleep } from 'node:timers/promises';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { RequestError } from '../../lib/http/request.ts';
import type { Repository, WorkbookRow } from '../http/library.ts';
import { type MirroredRepository, type MirroredTarget, repositoriesOf, rowsOf } from './catalogue.ts';
import { findUnclaimed, listTargets, type MirrorPort, readTarget, type StampedTarget } from './manifests.ts';

/** The contents of a mirror at a moment. */
export interface Scan {
  readonly targets: readonly MirroredTarget[];
  readonly byId: ReadonlyMap<string, MirroredRepository>;
  readonly repositories: readonly Repository[];
  /**
   * Targets, or folders of them, whose manifest cannot be read or understood, or is missing although the tree is there. A list without
   * them would look like deletions.
   */
  readonly unreadable: readonly string[];
  /** Sorted by id and branch; the same array as long as nothing changed. */
  readonly rows: () => readonly WorkbookRow[];
}

/** Age up to which a scan counts as recent, in milliseconds. */
const RECENT_MS = 5000;

/** Most attempts to scan a mirror, and the pause between two: a publish or a rename may be half done. */
const MOST_LOOKS = 30;
const PAUSE_MS = 50;

const READS = 16;

/** Reads the manifests of a mirror repeatedly; a manifest is read again only if its file has changed. */
export class Scanner {
  readonly #port: MirrorPort;
  readonly #known = new Map<string, StampedTarget>();
  #last: Scan | null = null;
  /** The contents now, or later than now. @throws RequestError 503, MirrorError `disk.failed` */
  readonly fresh = shareWork(() => this.#scan());
  /** The contents, possibly a moment old. @throws as `fresh` */
  readonly recent = shareWork(() => this.fresh(), RECENT_MS);

  constructor(port: MirrorPort) {
    this.#port = port;
  }

  async #scan(): Promise<Scan> {
    for (let looks = 1; ; looks += 1) {
      const { names, unreadable, unclaimed, isSteady } = await this.#look();
      if (isSteady && (unclaimed.length === 0 || looks === MOST_LOOKS)) {
        const targets = names.map((path) => this.#known.get(path) ?? null).filter(isReadable);
        this.#last = scanOf(targets, [...unreadable, ...unclaimed], this.#last);
        return this.#last;
      }
      if (looks === MOST_LOOKS) throw busy('the mirror changes faster than it can be listed');
      await sleep(PAUSE_MS);
    }
  }

  /**
   * Scans once. A manifest that moves while the folders are listed may be seen at neither place, so that its target would look
   * deleted: the scan is steady only if the names are the same before and after.
   */
  async #look() {
    const { targets: names, hidden } = await listTargets(this.#port);
    const unreadable = [...hidden];
    await forEachConcurrently(names, READS, async (path) => {
      const target = await this.read(path).catch(() => UNREADABLE);
      // The second list shows whether a manifest has vanished.
      if (target !== null && !isReadable(target)) unreadable.push(path);
    });
    const listed = new Set(names);
    for (const path of this.#known.keys()) if (!listed.has(path)) this.#known.delete(path);
    const unclaimed = await findUnclaimed(this.#port, [...names, ...hidden]);
    const after = await listTargets(this.#port);
    const isSteady = areEqual(names, after.targets) && areEqual(hidden, after.hidden);
    return { names, unreadable, unclaimed, isSteady };
  }

  /** The present state of a target; null if it has no manifest. @throws MirrorError `disk.failed` */
  async read(path: string): Promise<StampedTarget | null> {
    const read = await readTarget(this.#port, path, this.#known.get(path) ?? null);
    if (read === null) this.#known.delete(path);
    else this.#known.set(path, read);
    return read;
  }
}

const UNREADABLE = { manifest: null };

/** Whether a target has a manifest that can be understood. */
export function isReadable<T extends Pick<StampedTarget, 'manifest'>>(
  target: T | null,
): target is T & Pick<MirroredTarget, 'manifest'> {
  return target !== null && target.manifest !== null;
}

/** @param last the scan before, which is returned again if nothing changed */
function scanOf(targets: readonly MirroredTarget[], unreadable: readonly string[], last: Scan | null): Scan {
  if (last !== null && areEqual(targets, last.targets) && areEqual(unreadable, last.unreadable)) return last;
  const byId = repositoriesOf(targets);
  let rows: readonly WorkbookRow[] | null = null;
  return {
    targets,
    byId,
    repositories: [...byId.values()].map(({ shown }) => shown),
    unreadable,
    rows: () => {
      rows ??= rowsOf(byId);
      return rows;
    },
  };
}

function areEqual<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && one.every((each, index) => each === other[index]);
}

/** The answer to a request for a list while no complete list can be given. */
export function busy(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`, { 'retry-after': '1' });
}
