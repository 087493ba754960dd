import { setTimeout as sleep } from 'node:timers/promises';

import { forEachConcurrently } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import type { Repository, WorkbookRow } from '../http/library.ts';
import { RequestError } from '../../lib/http/request-error.ts';
import {
  type MirroredRepository,
  type MirroredTarget,
  repositoriesOf,
  rowsOf,
  targetOf,
} from './catalogue.ts';
import { type ListedTargets, listTargets, readStamped, findUnclaimed, type MirrorPort } from './manifests.ts';

/** The contents of a mirror at a moment. */
export interface Scan {
  readonly targets: readonly MirroredTarget[];
  readonly byId: ReadonlyMap<string, MirroredRepository>;
  readonly repositories: readonly Repository[];
  /**
   * Targets, or folders of them, whose manifest cannot be read or understood, or is not there although the tree is: what they are is
   * not known, which is not the same as nothing.
   */
  readonly unreadable: readonly string[];
  /** Sorted by id and branch; made when they are first asked for. */
  readonly rows: () => readonly WorkbookRow[];
}

interface Remembered {
  readonly stamp: string;
  readonly target: MirroredTarget;
}

/** How long a scan counts as recent, in milliseconds, and by how much longer than it took. */
const RECENT_MS = 1000;
const RECENT_FACTOR = 20;

/** How often it is looked anew because targets came, went or moved meanwhile. */
const MOST_TRIES = 20;

const READS = 16;

/** How long a tree may stand without its manifest when it is published, and how often it is looked at, in milliseconds. */
const PUBLISH_MS = 1500;
const PUBLISH_LOOK_MS = 50;

/** Looks at the manifests of a mirror, again and again. */
export type Scanner = ReturnType<typeof createScanner>;

/** Makes a scanner; a manifest is read again only when its file is another one. */
export function createScanner(port: MirrorPort) {
  const remembered = new Map<string, Remembered>();
  let last: Scan | null = null;
  let lastAtMs = -Infinity;
  let lastTookMs = 0;
  let running: Promise<Scan> | null = null;

  /** Trees that were found without a manifest for so long that they are not being published. */
  let lasting: ReadonlySet<string> = new Set();

  /** Looks once. @returns false where a tree without its manifest may be one that is just being published */
  const look = async (isLastLook: boolean): Promise<boolean> => {
    const startedAtMs = performance.now();
    const { targets, unreadable, unclaimed, isChanged } = await scanOnce(port, remembered);
    const isSure = isLastLook || unclaimed.every((path) => lasting.has(path));
    if (isSure) lasting = new Set(unclaimed);
    const unknown = [...unreadable, ...unclaimed];
    if (last === null || isChanged || unknown.length > 0 || last.unreadable.length > 0)
      last = scanOf(targets, unknown);
    if (isSure) {
      lastAtMs = startedAtMs;
      lastTookMs = performance.now() - startedAtMs;
    }
    return isSure;
  };
  const scan = async (): Promise<Scan> => {
    const untilMs = performance.now() + PUBLISH_MS;
    while (!(await look(performance.now() >= untilMs))) await sleep(PUBLISH_LOOK_MS);
    return last ?? scan();
  };
  // A scan that runs may have passed by what changed before it was asked for: all who ask meanwhile share the one after it.
  const fresh = shareWork(() => {
    running = scan().finally(() => {
      running = null;
    });
    return running;
  });
  return {
    /** The contents now, or later than now. */
    fresh,
    /** The contents a moment ago. */
    recent: (): Promise<Scan> => {
      const isRecent = performance.now() - lastAtMs < Math.max(RECENT_MS, RECENT_FACTOR * lastTookMs);
      return last !== null && isRecent ? Promise.resolve(last) : (running ?? fresh());
    },
  };
}

function scanOf(targets: readonly MirroredTarget[], unreadable: readonly string[]): Scan {
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

interface Found {
  readonly targets: readonly MirroredTarget[];
  readonly unreadable: readonly string[];
  /** Trees without a manifest. */
  readonly unclaimed: readonly string[];
  readonly isChanged: boolean;
}

/**
 * Reads what changed. A manifest that moves while the folders are listed may be seen at neither place, which would look as if its
 * target were gone: the names must be the same before and after.
 * @throws RequestError 503, MirrorError `disk.failed`
 */
async function scanOnce(port: MirrorPort, remembered: Map<string, Remembered>): Promise<Found> {
  let isChanged = false;
  let listed = await listTargets(port);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const { targets: names, hidden } = listed;
    const unreadable = [...hidden];
    await forEachConcurrently(names, READS, async (path) => {
      const outcome = await refresh(port, remembered, path);
      if (outcome === 'changed') isChanged = true;
      if (outcome === 'unreadable') unreadable.push(path);
    });
    const unclaimed = await findUnclaimed(port, [...names, ...hidden]);
    const listedAfter = await listTargets(port);
    if (isSame(listed, listedAfter)) {
      const present = new Set(names);
      for (const path of remembered.keys()) {
        if (present.has(path)) continue;
        remembered.delete(path);
        isChanged = true;
      }
      const targets = names.flatMap((path) => remembered.get(path)?.target ?? []);
      return { targets, unreadable, unclaimed, isChanged };
    }
    listed = listedAfter;
  }
  throw busy('the mirror changes faster than it can be listed');
}

async function refresh(
  port: MirrorPort,
  remembered: Map<string, Remembered>,
  path: string,
): Promise<'known' | 'changed' | 'unreadable'> {
  const read = await readStamped(port, path, remembered.get(path)?.stamp ?? null).catch(
    () => 'unreadable' as const,
  );
  if (read === 'known') return 'known';
  if (read === 'unreadable' || read?.manifest === null) {
    remembered.delete(path);
    return 'unreadable';
  }
  // What vanished since the folder was listed is missed in the second list.
  if (read === null) return 'changed';
  remembered.set(path, { stamp: read.stamp, target: targetOf(path, read.manifest, read.writtenAtMs) });
  return 'changed';
}

function isSame(one: ListedTargets, other: ListedTargets): boolean {
  return areEqual(one.targets, other.targets) && areEqual(one.hidden, other.hidden);
}

function areEqual(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name, index) => name === other[index]);
}

/** The answer to a request for a list while no whole list can be given. */
export function busy(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`, { 'retry-after': '1' });
}

/**
 * The answer to whoever asks for contents that cannot be given at the moment. It does not say when: clients take that for the whole
 * service (RFC 9110, section 15.6.4), which gives all other contents.
 */
export function withheld(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`);
}
