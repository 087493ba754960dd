import { dirname } from 'node:path';

import { watch } from 'chokidar';

/** A watch on a few files. */
export interface FileWatch {
  /** Watches these files, too. */
  readonly follow: (files: readonly string[]) => void;
  readonly close: () => Promise<void>;
}

/** Editors and Kubernetes replace files in several steps: they are looked at when it has been quiet so long, in milliseconds. */
const QUIET_MS = 300;

/**
 * Says that something may have changed in the folders of some files. The folders are watched and not the files: who replaces
 * a file gives it another inode, and Kubernetes swaps a link beside it ("AtomicWriter": `..data`). A hint and no more; where
 * nothing can be watched, none comes.
 * @param onHint called when all has been quiet again
 */
export function watchFiles(files: readonly string[], onHint: () => void): FileWatch {
  let timer: NodeJS.Timeout | undefined;
  const hint = (): void => {
    clearTimeout(timer);
    timer = setTimeout(onHint, QUIET_MS);
  };
  const folders = new Set(files.map((file) => dirname(file)));
  const watcher = watch([...folders], {
    depth: 0,
    ignoreInitial: true,
    followSymlinks: false,
    atomic: false,
    backend: 'native',
  });
  // A change of a link that stays a link is no event of its own; the folder's raw events tell of it.
  watcher.on('raw', hint);
  watcher.on('all', hint);
  watcher.on('error', () => {});
  return {
    follow: (next) => {
      for (const file of next) {
        const folder = dirname(file);
        if (!folders.has(folder)) watcher.add(folder);
        folders.add(folder);
      }
    },
    close: async () => {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}
