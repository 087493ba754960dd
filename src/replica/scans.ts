import { forEachConcurrently } from '../model/concurrency.ts';
import type { Repository, WorkbookRow } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import {
  type MirroredRepository,
  type MirroredTarget,
  repositoriesOf,
  rowsOf,
  targetOf,
} from './catalogue.ts';
import { listTargets, readStamped } from './manifests.ts';
import type { MirrorPort } from './ports.ts';

/** What a mirror held at a moment. */
export interface Scan {
  readonly targets: readonly MirroredTarget[];
  readonly byId: ReadonlyMap<string, MirroredRepository>;
  readonly repositories: readonly Repository[];
  /** Targets whose manifest cannot be read or understood: what they are is not known, which is not the same as nothing. */
  readonly unreadable: readonly string[];
  /** Sorted by id and branch; made when they are first asked for. */
  readonly rows: () => readonly WorkbookRow[];
}

/** Looks at the manifests of a mirror, again and again. */
export interface Scanner {
  /** What it holds now, or later than now. */
  readonly fresh: () => Promise<Scan>;
  /** What it held a moment ago. */
  readonly recent: () => Promise<Scan>;
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

/** Makes a scanner; a manifest is read again only when its file is another one. */
export function createScanner(port: MirrorPort): Scanner {
  const remembered = new Map<string, Remembered>();
  let last: Scan | null = null;
  let lastAtMs = -Infinity;
  let lastTookMs = 0;
  let running: Promise<Scan> | null = null;
  let next: Promise<Scan> | null = null;

  const scan = async (): Promise<Scan> => {
    const startedAtMs = performance.now();
    const { targets, unreadable, isChanged } = await scanOnce(port, remembered);
    if (last === null || isChanged || unreadable.length > 0 || last.unreadable.length > 0)
      last = scanOf(targets, unreadable);
    lastAtMs = startedAtMs;
    lastTookMs = performance.now() - startedAtMs;
    return last;
  };
  const begin = (): Promise<Scan> => {
    const begun = scan();
    running = begun;
    const end = (): void => {
      if (running === begun) running = null;
    };
    begun.then(end, end);
    return begun;
  };
  const fresh = (): Promise<Scan> => {
    if (running === null) return begin();
    // The one that runs may have passed by what changed before it was asked for: all who ask meanwhile share the one after it.
    next ??= running
      .catch(() => {})
      .then(() => {
        next = null;
        return begin();
      });
    return next;
  };
  return {
    fresh,
    recent: () => {
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
  readonly isChanged: boolean;
}

/**
 * Reads what changed. A manifest that moves while the folders are listed may be seen at neither place, which would look as if its
 * target were gone: the names must be the same before and after.
 * @throws RequestError 503, MirrorError `disk.failed`
 */
async function scanOnce(port: MirrorPort, remembered: Map<string, Remembered>): Promise<Found> {
  let isChanged = false;
  let names = await listTargets(port);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const unreadable: string[] = [];
    await forEachConcurrently(names, READS, async (path) => {
      const outcome = await refresh(port, remembered, path);
      if (outcome === 'changed') isChanged = true;
      if (outcome === 'unreadable') unreadable.push(path);
    });
    const namesAfter = await listTargets(port);
    if (isSame(names, namesAfter)) {
      const present = new Set(names);
      for (const path of remembered.keys()) {
        if (present.has(path)) continue;
        remembered.delete(path);
        isChanged = true;
      }
      const targets = names.flatMap((path) => remembered.get(path)?.target ?? []);
      return { targets, unreadable, isChanged };
    }
    names = namesAfter;
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

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name, index) => name === other[index]);
}

/** The answer to whoever asks at a moment at which nothing whole can be given. */
export function busy(message: string): RequestError {
  return new RequestError(503, 'unavailable', `${message}: ask again`, { 'retry-after': '1' });
}
