import { join } from 'node:path';

import type { HistoryKind } from '../plan/retention.ts';
import type { Shard } from '../plan/selection.ts';

/** The paths of everything that the program keeps below the setting `directory` (manual, "On disk"). */
export interface DirectoryLayout {
  readonly root: string;
  readonly mirror: string;
  readonly manifests: string;
  readonly history: string;
  /** The trees that links below `mirror/` lead to, where `publish` is `link`. */
  readonly trees: string;
  /** Names all targets, so that one is missed that is lost with its manifest. */
  readonly targetList: string;
  /** Private: lock, state, staging and trash; marked as not worth a backup. */
  readonly internal: string;
  /** The index of the instance among several that share the directory; null for one that has it alone. */
  readonly shardIndex: number | null;
  /** What each of those instances has for itself, a folder each. */
  readonly shards: string;
  /** Locked by the instance that does what only one may do at a time. */
  readonly commonLock: string;
  /** Locked by the instance that has the whole directory, or together by all that share it. */
  readonly wholeLock: string;
  readonly staging: string;
  readonly trash: string;
  /** Held changes that people approved, one file each. */
  readonly approvals: string;
  /** Where commands reach the daemon that works as this instance. */
  readonly controlSocket: string;
  /** Promises that nothing is published for a while, one file each. */
  readonly leases: string;
  /** Locked while a process publishes, and while one takes a lease. */
  readonly gate: string;
  /** Locked by the one process that works as this instance. */
  readonly lockFile: string;
  readonly stateFile: string;
  /** What an instance says of its share after each pass. */
  readonly shareReport: string;
}

/**
 * Names the paths below a root; touches nothing.
 * @param shard the instance for whose share of the repositories it is; left out where one has all
 */
export function layoutOf(root: string, shard?: Pick<Shard, 'index'>): DirectoryLayout {
  const internal = join(root, '.workbook-mirror');
  const shards = join(internal, 'shards');
  const own = shard === undefined ? internal : join(shards, String(shard.index));
  return {
    root,
    mirror: join(root, 'mirror'),
    manifests: join(root, 'manifests'),
    history: join(root, 'history'),
    trees: join(root, 'trees'),
    targetList: join(root, 'inventory.json'),
    internal,
    shardIndex: shard?.index ?? null,
    shards,
    commonLock: join(internal, 'common.lock'),
    wholeLock: join(internal, 'lock'),
    staging: join(own, 'staging'),
    trash: join(own, 'trash'),
    approvals: join(internal, 'approvals'),
    controlSocket: join(own, 'control.sock'),
    leases: join(internal, 'leases'),
    gate: join(internal, 'publish.lock'),
    lockFile: join(own, 'lock'),
    stateFile: join(own, 'state.db'),
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
