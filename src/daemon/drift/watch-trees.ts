import { basename, join, relative } from 'node:path';

import { watch } from 'chokidar';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** A watch on published trees. */
export interface TreeWatch {
  readonly close: () => Promise<void>;
}

/**
 * Watches everything below some folders of a directory and says where something may have changed. These are hints and no more: one says nothing
 * of what happened, a burst of changes may lose some (inotify(7), IN_Q_OVERFLOW), and a file that is changed through another
 * hard link or through mapped memory gives none. So the receiver of a hint examines the tree.
 *
 * One watch a folder tells of its files too, so files are left out: chokidar would keep each in memory and look at it anew for
 * every event. What happens to them comes as raw events of their folder.
 * @param folders their names in the directory
 * @param onHint receives paths below the directory, with slashes
 * @param onError called once when some folder cannot be watched, and once when the system has no watches left: then all are
 *   given back, and no further hint comes
 * @returns when everything that is there is watched, or cannot be
 */
export async function watchTrees(
  directory: string,
  folders: readonly string[],
  onHint: (path: string) => void,
  onError: (error: MirrorError) => void,
): Promise<TreeWatch> {
  const { promise: ready, resolve: setReady } = Promise.withResolvers<void>();
  const { promise: exhausted, resolve: setExhausted } = Promise.withResolvers<void>();
  let isReady = false;
  let hasFailed = false;
  let isOver = false;
  const hint = (path: string): void => {
    const below = relative(directory, path);
    if (!isOver && below !== '..' && !below.startsWith('../')) onHint(below);
  };
  const watched = folders.map((folder) => join(directory, folder));
  const watcher = watch(watched, {
    // Asked about every file that is come across in a new folder: it may have been made before the folder was watched.
    ignored: (path, stats) => {
      if (stats === undefined || stats.isDirectory()) return false;
      if (isReady) hint(path);
      return true;
    },
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    backend: 'native',
  });
  watcher.on('raw', (_event, name: unknown, details: unknown) => {
    const folder = watchedPathOf(details);
    if (folder === null) return;
    // A folder reports itself by its own name, as it would a child of that name.
    const isItself = typeof name !== 'string' || name === basename(folder);
    hint(isItself ? folder : join(folder, name));
  });
  watcher.on('all', (_event, path) => hint(path));
  watcher.on('error', (error) => {
    if (isOver) return;
    const failure = watchFailure(error);
    isOver = failure.isOver;
    if (!hasFailed || isOver) onError(failure.error);
    hasFailed = true;
    if (isOver) setExhausted();
  });
  watcher.on('ready', () => {
    isReady = true;
    setReady();
  });
  await Promise.race([ready, exhausted.then(() => watcher.close())]);
  return { close: () => watcher.close() };
}

/** The path that chokidar says a raw event belongs to; its form is not promised. */
function watchedPathOf(details: unknown): string | null {
  if (typeof details !== 'object' || details === null || !('watchedPath' in details)) return null;
  return typeof details.watchedPath === 'string' ? details.watchedPath : null;
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
