import { join } from 'node:path';

import type { Shard } from '../plan/selection.ts';

/** The paths of everything that the program keeps below the setting `directory` (manual, "On disk"). */
export type DirectoryLayout = Readonly<ReturnType<typeof layoutOf>>;

/**
 * Names the paths below a root; touches nothing.
 * @param shard the instance, if it mirrors only a share of the repositories
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
    /** The trees that links below `mirror/` lead to, if `publish` is `link`. */
    trees: join(root, 'trees'),
    /** Lists all targets, so that one that is lost with its manifest is noticed. */
    targetList: join(root, 'inventory.json'),
    /** Private: lock, state, staging and trash; marked so that backups skip it. */
    internal,
    /** The index of the instance among several that share the directory; null if it is not shared. */
    shardIndex: shard?.index ?? null,
    /** A private folder for each of these instances. */
    shards,
    /** Locked by an instance for work that only one may do at a time. */
    commonLock: join(internal, 'common.lock'),
    /** Locked by the instance that has the whole directory, or jointly by all that share it. */
    wholeLock: join(internal, 'lock'),
    staging: join(own, 'staging'),
    trash: join(own, 'trash'),
    /** Approvals of held changes, one file each. */
    approvals: join(internal, 'approvals'),
    /** The socket of the daemon that runs as this instance. */
    controlSocket: join(own, 'control.sock'),
    /** Leases, one file each: nothing is published while one holds. */
    leases: join(internal, 'leases'),
    /** Locked while a process publishes, and while one takes a lease. */
    gate: join(internal, 'publish.lock'),
    /** Locked by the one process that runs as this instance. */
    lockFile: join(own, 'lock'),
    stateFile: join(own, 'state.db'),
    /** The report of an instance on its share, written after each pass. */
    shareReport: join(own, 'report.json'),
  };
}

/** The place of a target's tree, or of a link to it. `path` is `<repository>/<branch>`. */
export function treePath(layout: DirectoryLayout, path: string): string {
  return join(layout.mirror, path);
}

/** The place of a target's manifest. `path` is `<repository>/<branch>`. */
export function manifestPath(layout: DirectoryLayout, path: string): string {
  return join(layout.manifests, `${path}.json`);
}

/** Why a tree is in the history: its target is gone from the service, or a newer state replaced it. */
export type HistoryKind = 'retired' | 'replaced';

const HISTORY_NAME = /^(\d{4})(\d{2})(\d{2}T\d{2})(\d{2})(\d{2}\.\d{3}Z)(-replaced)?$/;

/** The name of a tree in the history; its manifest lies beside it as `….json`. */
export function historyName(atMs: number, kind: HistoryKind): string {
  const stamp = new Date(atMs).toISOString().replace(/[-:]/g, '');
  return kind === 'replaced' ? `${stamp}-replaced` : stamp;
}

/** Parses a name of {@link historyName}; null for any other name. */
export function parseHistoryName(name: string): { readonly atMs: number; readonly kind: HistoryKind } | null {
  const [, year, month, dayHour, minute, second, suffix] = HISTORY_NAME.exec(name) ?? [];
  const atMs = Date.parse(`${year}-${month}-${dayHour}:${minute}:${second}`);
  return Number.isNaN(atMs) ? null : { atMs, kind: suffix === undefined ? 'retired' : 'replaced' };
}
