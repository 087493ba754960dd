import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import { isMissing, systemCode, unlessMissing, unlessMissingNow } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** A folder that is watched. */
interface Folder {
  readonly path: string;
  readonly watcher: FSWatcher;
  readonly children: Map<string, Folder>;
  /** Whether it is watched no more. */
  isLeft: boolean;
}

/** A name in a watched folder. */
interface Place {
  readonly folder: Folder;
  readonly name: string;
}

/**
 * Watches everything below some folders of a directory, whatever comes and goes there, and says where something may have changed. These are
 * hints and no more: one says nothing of what happened, a burst of changes may lose some (inotify(7), IN_Q_OVERFLOW), and a file that is
 * changed through another hard link or through mapped memory gives none. So the receiver of a hint examines the tree. Links are not followed.
 *
 * One watch a folder tells of its files too, so no file is looked at. A folder is watched before it is listed, and its parent before it: so
 * there is an event of everything that the list may have missed. A new folder is hinted at once it is watched: who looks then sees what
 * happened in it before, and what happens later is an event.
 */
export class TreeWatch {
  /** Resolves when everything that is there is watched, or cannot be, and when the watch is closed. */
  readonly ready: Promise<void>;
  readonly #directory: string;
  readonly #names: readonly string[];
  readonly #onHint: (path: string) => void;
  readonly #onError: (error: MirrorError) => void;
  #root: Folder | null = null;
  /** Where something else may stand by now than what is watched, by path. */
  readonly #places = new Map<string, Place>();
  readonly #looks = createBackgroundWork(
    () => this.#lookAtPlaces(),
    (error) => this.#fail(error),
  );
  #isReady = false;
  #isOver = false;
  #hasFailed = false;

  /**
   * @param names of the folders in the directory; one that is not there is watched when it appears
   * @param onHint receives paths below the directory, with slashes
   * @param onError called once when some folder cannot be watched, and once when the system has no watches left: then all are
   *   given back, and no further hint comes
   */
  constructor(
    directory: string,
    names: readonly string[],
    onHint: (path: string) => void,
    onError: (error: MirrorError) => void,
  ) {
    this.#directory = directory;
    this.#names = names;
    this.#onHint = onHint;
    this.#onError = onError;
    this.ready = this.#begin();
  }

  async close(): Promise<void> {
    this.#leave();
    await this.#looks.close(0);
  }

  async #begin(): Promise<void> {
    const root = this.#watch(this.#directory);
    if (root === null) {
      this.#fail(new Error(`the folder ${this.#directory} is not there`));
      return;
    }
    this.#root = root;
    for (const name of this.#names) this.#places.set(join(root.path, name), { folder: root, name });
    this.#looks.wake();
    await this.#looks.idle();
    this.#isReady = true;
  }

  /** Gives all watches back: nothing is told any more. */
  #leave(): void {
    this.#isOver = true;
    this.#places.clear();
    if (this.#root !== null) unwatch(this.#root);
  }

  #fail(cause: unknown): void {
    if (this.#isOver) return;
    const { error, isOver } = watchFailure(cause);
    if (!this.#hasFailed || isOver) this.#onError(error);
    this.#hasFailed = true;
    if (isOver) this.#leave();
  }

  #onEvent(folder: Folder, event: string, name: string): void {
    if (folder === this.#root && !this.#names.includes(name)) return;
    const path = join(folder.path, name);
    this.#onHint(relative(this.#directory, path));
    if (event !== 'rename') return;
    this.#places.set(path, { folder, name });
    this.#looks.wake();
  }

  /** One place after the other, so that the last look at a place comes after its last event. */
  async #lookAtPlaces(): Promise<void> {
    for (const [path, place] of this.#places) {
      this.#places.delete(path);
      await this.#lookAt(place, path).catch((error: unknown) => this.#fail(error));
    }
  }

  /** What stands at a place is watched anew: by its path nobody sees whether it is still the same. */
  async #lookAt({ folder, name }: Place, path: string): Promise<void> {
    const before = folder.children.get(name);
    if (before !== undefined) unwatch(before);
    folder.children.delete(name);
    const found = await unlessMissing(lstat(path));
    if (found?.isDirectory() === true) await this.#enter(folder, name);
  }

  async #enter(parent: Folder, name: string): Promise<void> {
    if (parent.isLeft) return;
    const folder = this.#watch(join(parent.path, name));
    if (folder === null) return;
    parent.children.set(name, folder);
    if (this.#isReady) this.#onHint(relative(this.#directory, folder.path));
    for (const child of await this.#foldersIn({ folder: parent, name }, folder.path))
      await this.#enter(folder, child);
  }

  /** The folders in one that was just watched; none where it cannot be listed. */
  async #foldersIn(place: Place, path: string): Promise<readonly string[]> {
    try {
      const entries = await readdir(path, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    } catch (error) {
      // The folder is gone, or what was in it, where the file system does not tell folders from files in its lists.
      if (isMissing(error)) this.#places.set(path, place);
      else this.#fail(error);
      return [];
    }
  }

  /** Watches a folder alone; null if it is not there any more, or cannot be watched. */
  #watch(path: string): Folder | null {
    try {
      const watcher = unlessMissingNow(() => watch(path));
      if (watcher === null) return null;
      const folder = { path, watcher, children: new Map<string, Folder>(), isLeft: false };
      // An event of the folder itself has its own name, as one of a child of that name would have.
      watcher.on('change', (event, name) => this.#onEvent(folder, event, String(name)));
      watcher.on('error', (error) => this.#fail(error));
      return folder;
    } catch (error) {
      this.#fail(error);
      return null;
    }
  }
}

/** Gives back the watches of a folder and of all below it. */
function unwatch(folder: Folder): void {
  folder.isLeft = true;
  folder.watcher.close();
  for (const child of folder.children.values()) unwatch(child);
  folder.children.clear();
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
