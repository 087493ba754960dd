import { join } from 'node:path';

/** The paths of everything that the program keeps below the setting `directory` (README, "On disk"). */
export interface DirectoryLayout {
  readonly root: string;
  readonly mirror: string;
  readonly manifests: string;
  readonly history: string;
  /** Private: lock, state, staging and trash; marked as not worth a backup. */
  readonly internal: string;
  readonly staging: string;
  readonly trash: string;
  /** What persons let through, one file each. */
  readonly approvals: string;
  readonly lockFile: string;
  readonly stateFile: string;
}

/** Names the paths below a root; touches nothing. */
export function layoutOf(root: string): DirectoryLayout {
  const internal = join(root, '.workbook-mirror');
  return {
    root,
    mirror: join(root, 'mirror'),
    manifests: join(root, 'manifests'),
    history: join(root, 'history'),
    internal,
    staging: join(internal, 'staging'),
    trash: join(internal, 'trash'),
    approvals: join(internal, 'approvals'),
    lockFile: join(internal, 'lock'),
    stateFile: join(internal, 'state.db'),
  };
}

/** Where a target's tree stands. `path` is `<repository>/<branch>`. */
export function treePath(layout: DirectoryLayout, path: string): string {
  return join(layout.mirror, path);
}

/** Where a target's manifest stands. `path` is `<repository>/<branch>`. */
export function manifestPath(layout: DirectoryLayout, path: string): string {
  return join(layout.manifests, `${path}.json`);
}

/** Where a tree goes when it leaves the mirror: dated, with its manifest beside it as `….json`. */
export function historyPath(layout: DirectoryLayout, path: string, nowMs: number): string {
  const stamp = new Date(nowMs).toISOString().replace(/[-:]/g, '');
  return join(layout.history, path, stamp);
}
