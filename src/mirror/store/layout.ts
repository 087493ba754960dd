import { join } from 'node:path';

import type { Shard } from '../plan/selection.ts';

/** The paths of everything that the program keeps below the setting `directory` (manual, "On disk"). */
export type DirectoryLayout = Readonly<ReturnType<typeof layoutOf>>;

/**
 * Names the paths below a root; touches nothing.
 * @param shard the instance for whose share of the repositories it is; left out where one has all
 */
export function layoutOf(root: string, shard?: Pick<Shard, 'index'>) {
  const internal = join(root, '.workbook-mirror');
  const shards = join(internal, 'shards');
  const own = shard === undefined ? internal : join(shards, String(shard.index));
  return {
    root,
    mirror: join(root, 'mirror'),
    manifests: join(root, 'manifests'),
    history: join(root, 'history'),
    /** The trees that links below `mirror/` lead to, where `publish` is `link`. */
    trees: join(root, 'trees'),
    /** Names all targets, so that one is missed that is lost with its manifest. */
    targetList: join(root, 'inventory.json'),
    /** Private: lock, state, staging and trash; marked as not worth a backup. */
    internal,
    /** The index of the instance among several that share the directory; null for one that has it alone. */
    shardIndex: shard?.index ?? null,
    /** A folder for each of those instances, which it has for itself. */
    shards,
    /** Locked by the instance that does what only one may do at a time. */
    commonLock: join(internal, 'common.lock'),
    /** Locked by the instance that has the whole directory, or together by all that share it. */
    wholeLock: join(internal, 'lock'),
    staging: join(own, 'staging'),
    trash: join(own, 'trash'),
    /** Held changes that people approved, one file each. */
    approvals: join(internal, 'approvals'),
    /** Where commands reach the daemon that works as this instance. */
    controlSocket: join(own, 'control.sock'),
    /** Promises that nothing is published for a while, one file each. */
    leases: join(internal, 'leases'),
    /** Locked while a process publishes, and while one takes a lease. */
    gate: join(internal, 'publish.lock'),
    /** Locked by the one process that works as this instance. */
    lockFile: join(own, 'lock'),
    stateFile: join(own, 'state.db'),
    /** The report of an instance on its share, written after each pass. */
    shareReport: join(own, 'report.json'),
  };
}

/** Where readers find a target's tree, or a link to it. `path` is `<repository>/<branch>`. */
export function treePath(layout: DirectoryLayout, path: string): string {
  return join(layout.mirror, path);
}

/** Where a target's manifest stands. `path` is `<repository>/<branch>`. */
export function manifestPath(layout: DirectoryLayout, path: string): string {
  return join(layout.manifests, `${path}.json`);
}

/** Why a tree is in the history: its target is gone from the service, or a newer state took its place. */
export type HistoryKind = 'retired' | 'replaced';

const HISTORY_NAME = /^(\d{4})(\d{2})(\d{2}T\d{2})(\d{2})(\d{2}\.\d{3}Z)(-replaced)?$/;

/** The name under which the history keeps a tree that left the mirror; its manifest lies beside it as `….json`. */
export function historyName(atMs: number, kind: HistoryKind): string {
  const stamp = new Date(atMs).toISOString().replace(/[-:]/g, '');
  return kind === 'replaced' ? `${stamp}-replaced` : stamp;
}

/** Reads a name of {@link historyName}; null when it is none. */
export function parseHistoryName(name: string): { readonly atMs: number; readonly kind: HistoryKind } | null {
  const [, year, month, dayHour, minute, second, suffix] = HISTORY_NAME.exec(name) ?? [];
  const atMs = Date.parse(`${year}-${month}-${dayHour}:${minute}:${second}`);
  return Number.isNaN(atMs) ? null : { atMs, kind: suffix === undefined ? 'retired' : 'replaced' };
}
