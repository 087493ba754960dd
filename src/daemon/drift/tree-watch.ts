import { type FSWatcher, watch } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { createBackgroundWork } from '../../lib/concurrency/background-work.ts';
import { isMissing, systemCode, unlessMissing, unlessMissingNow } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';

/** A watched folder. */
interface Folder {
  readonly path: string;
  readonly watcher: FSWatcher;
  readonly children: Map<string, Folder>;
  /** Whether the watch has ended. */
  isLeft: boolean;
}

/** A name in a watched folder. */
interface Place {
  readonly folder: Folder;
  readonly name: string;
}

/**
 * Watches everything below some folders of a directory, including new folders, and reports where something may have changed. These are
 * only hints: they do not say what happened, a burst of changes may lose some (inotify(7), IN_Q_OVERFLOW), and a change
 * through another hard link or mapped memory gives none. So the receiver must examine the tree. Links are not followed.
 *
 * The watch of a folder covers its files, so files need no watch. A folder is watched after its parent and before it is listed, so that
 * every change that the list misses causes an event. A new folder gives a hint once it is watched: examining it then shows earlier
 * changes, and later ones cause events.
 */
export class TreeWatch {
  /** Resolves when everything present is watched or found unwatchable, or the watch is closed. */
  readonly ready: Promise<void>;
  readonly #directory: string;
  readonly #names: readonly string[];
  readonly #onHint: (path: string) => void;
  readonly #onError: (error: MirrorError) => void;
  #root: Folder | null = null;
  /** Paths at which a watched folder may have been replaced. */
  readonly #places = new Map<string, Place>();
  readonly #looks = createBackgroundWork(
    () => this.#lookAtPlaces(),
    (error) => this.#fail(error),
  );
  #isReady = false;
  #isOver = false;
  #hasFailed = false;

  /**
   * @param names of the folders in the directory; a missing one is watched when it appears
   * @param onHint receives paths below the directory, with slashes
   * @param onError called once when some folder cannot be watched, and once when the system has no watches left: then all are
   *   released, and no further hint comes
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

  /** Whether everything is watched: every change gives a hint. */
  get isWhole(): boolean {
    return this.#isReady && !this.#hasFailed;
  }

  async close(): Promise<void> {
    this.#leave();
    await this.#looks.close(0);
  }

  async #begin(): Promise<void> {
    const root = this.#watch(this.#directory);
    if (root === null) {
      this.#fail(new Error(`the folder ${this.#directory} is missing`));
      return;
    }
    this.#root = root;
    for (const name of this.#names) this.#places.set(join(root.path, name), { folder: root, name });
    this.#looks.wake();
    await this.#looks.idle();
    this.#isReady = true;
  }

  /** Releases all watches: no hint follows. */
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

  /** Handles one path after the other, so that each is last examined after its last event. */
  async #lookAtPlaces(): Promise<void> {
    for (const [path, place] of this.#places) {
      this.#places.delete(path);
      await this.#lookAt(place, path).catch((error: unknown) => this.#fail(error));
    }
  }

  /** Renews the watch of a path: the path does not show whether it is still the same folder. */
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

  /** The folders in a newly watched one; none if it cannot be listed. */
  async #foldersIn(place: Place, path: string): Promise<readonly string[]> {
    try {
      const entries = await readdir(path, { withFileTypes: true });
      return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
    } catch (error) {
      // The folder has vanished, or an entry whose type the file system's list does not show.
      if (isMissing(error)) this.#places.set(path, place);
      else this.#fail(error);
      return [];
    }
  }

  /** Watches a single folder; null if it has vanished or cannot be watched. */
  #watch(path: string): Folder | null {
    try {
      const watcher = unlessMissingNow(() => watch(path));
      if (watcher === null) return null;
      const folder = { path, watcher, children: new Map<string, Folder>(), isLeft: false };
      // An event of the folder itself carries its own name, like one of a child with that name.
      watcher.on('change', (event, name) => this.#onEvent(folder, event, String(name)));
      watcher.on('error', (error) => this.#fail(error));
      return folder;
    } catch (error) {
      this.#fail(error);
      return null;
    }
  }
}

/** Releases the watches of a folder and of all below it. */
function unwatch(folder: Folder): void {
  folder.isLeft = true;
  folder.watcher.close();
  for (const child of folder.children.values()) unwatch(child);
  folder.children.clear();
}

/** Error codes of the system's limits on watches, inotify instances and open files (inotify(7)). */
const USED_UP: ReadonlySet<string> = new Set(['ENOSPC', 'EMFILE', 'ENFILE']);

/** The error for an incomplete watch, and whether nothing more can be watched. */
function watchFailure(error: unknown): { readonly error: MirrorError; readonly isOver: boolean } {
  const isOver = USED_UP.has(systemCode(error) ?? '');
  const why = error instanceof Error ? error.message : String(error);
  const message = `Changes of ${isOver ? '' : 'some '}published trees are not watched: ${why}.`;
  const advice = isOver
    ? 'Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl (one watch a folder of the mirror), or the limit of open files.'
    : 'Check the permissions below mirror/.';
  const hint = `${advice} Until then, drift there is found after each pass.`;
  return { error: new MirrorError('disk.failed', message, { cause: error, hint }), isOver };
}
