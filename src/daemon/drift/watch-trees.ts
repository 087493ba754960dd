import { relative } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { WatchedFolders } from './watched-folders.ts';

/** A watch on published trees. */
export interface TreeWatch {
  /** Resolves when everything that is there is watched, or cannot be, and when the watch is closed. */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * Watches everything below some folders of a directory and says where something may have changed. These are hints and no more: one says nothing
 * of what happened, a burst of changes may lose some (inotify(7), IN_Q_OVERFLOW), and a file that is changed through another
 * hard link or through mapped memory gives none. So the receiver of a hint examines the tree.
 *
 * One watch a folder tells of its files too, so no file is looked at. A new folder is hinted at once it is watched: who looks then sees
 * what happened in it before, and what happens later is an event.
 * @param folders their names in the directory; one that is not there is watched when it appears
 * @param onHint receives paths below the directory, with slashes
 * @param onError called once when some folder cannot be watched, and once when the system has no watches left: then all are
 *   given back, and no further hint comes
 */
export function watchTrees(
  directory: string,
  folders: readonly string[],
  onHint: (path: string) => void,
  onError: (error: MirrorError) => void,
): TreeWatch {
  let hasFailed = false;
  const watched = new WatchedFolders(
    directory,
    folders,
    (path) => onHint(relative(directory, path)),
    (error) => {
      const failure = watchFailure(error);
      if (!hasFailed || failure.isOver) onError(failure.error);
      hasFailed = true;
      if (failure.isOver) watched.leave();
    },
  );
  return { ready: watched.begin(), close: () => watched.close() };
}

const LIMITS: Readonly<Record<string, { readonly what: string; readonly setting: string }>> = {
  ENOSPC: { what: 'all its inotify watches', setting: 'fs.inotify.max_user_watches' },
  EMFILE: {
    what: 'all its inotify instances or open files',
    setting: 'fs.inotify.max_user_instances (or the limit of open files)',
  },
  ENFILE: { what: 'all open files of the system', setting: 'fs.file-max' },
};

/** Says why a watch is not complete, and whether nothing more can be watched at all. */
function watchFailure(error: unknown): { readonly error: MirrorError; readonly isOver: boolean } {
  const code = systemCode(error) ?? '';
  const limit = LIMITS[code];
  const cause = { cause: error };
  if (limit !== undefined) {
    const message = `Changes of published trees are not watched: this user has used up ${limit.what} (${code}).`;
    const hint = `Raise ${limit.setting} with sysctl, one watch a folder of the mirror. Until then drift is found by the full check.`;
    return { error: new MirrorError('disk.failed', message, { ...cause, hint }), isOver: true };
  }
  const why = error instanceof Error ? error.message : String(error);
  const hint = 'Check the permissions below mirror/. Until then drift there is found by the full check.';
  const message = `Changes of some published trees are not watched: ${why}.`;
  return { error: new MirrorError('disk.failed', message, { ...cause, hint }), isOver: false };
}
