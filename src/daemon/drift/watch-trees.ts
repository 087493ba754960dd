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

/** The limits of the system: none of its watches, its inotify instances or its open files is left (inotify(7)). */
const USED_UP: ReadonlySet<string> = new Set(['ENOSPC', 'EMFILE', 'ENFILE']);

/** Says why a watch is not complete, and whether nothing more can be watched at all. */
function watchFailure(error: unknown): { readonly error: MirrorError; readonly isOver: boolean } {
  const isOver = USED_UP.has(systemCode(error) ?? '');
  const why = error instanceof Error ? error.message : String(error);
  const message = `Changes of ${isOver ? '' : 'some '}published trees are not watched: ${why}.`;
  const advice = isOver
    ? 'Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl (one watch a folder of the mirror), or the limit of open files.'
    : 'Check the permissions below mirror/.';
  const hint = `${advice} Until then drift there is found by the full check.`;
  return { error: new MirrorError('disk.failed', message, { cause: error, hint }), isOver };
}
