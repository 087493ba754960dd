import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';

import { watch } from 'chokidar';

import { Places } from '../../lib/concurrency/concurrency.ts';
import { changedSettings, digestSettings, filesOfSettings, keepUntilRestart } from '../../config/changes.ts';
import type { LoadedSettings } from '../../config/load.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { eventFailure, type EventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import { oneLine } from '../../lib/text/humanize.ts';

type RunSettings = SettingsFor<'service' | 'directory'>;

/** Reads the settings again, from all their sources. @throws MirrorError `settings.invalid` */
export type LoadSettings = () => LoadedSettings<readonly ['service', 'directory']>;

/** The settings of a running daemon. */
export type LiveSettings = ReturnType<typeof followSettings>;

type TakeSettings = (settings: RunSettings) => Promise<void>;

/** The prefix of the embedded service's settings, which do not concern the daemon. */
const FOREIGN = 'serve.';

/** Follows the settings on disk. Settings that need a restart stay unchanged, and are reported. */
export function followSettings(first: ReturnType<LoadSettings>, load: LoadSettings, emit: EventSink) {
  let takeAll: TakeSettings = () => Promise.resolve();
  let current = first.settings;
  let inForce = digestSettings(current);
  let waiting: readonly string[] = [];
  let problem = '';
  const checks = new Places(1);
  let files: ReturnType<typeof watchFiles> | null = null;

  const refuse = (error: unknown): void => {
    const failure = failureIn(error);
    // Files with a mistake are read repeatedly, but the mistake is reported once.
    if (failure.message !== problem) emit({ name: 'settings.refused', ...failure });
    problem = failure.message;
  };
  const take = async (loaded: ReturnType<LoadSettings>): Promise<void> => {
    const next = keepUntilRestart(loaded.settings, current);
    const digests = digestSettings(next);
    const changed = changedSettings(inForce, digests).filter((name) => !name.startsWith(FOREIGN));
    if (changed.length > 0) {
      await takeAll(next);
      current = next;
      inForce = digests;
    }
    if (changed.length > 0 || problem !== '') emit({ name: 'settings.reloaded', changed });
    problem = '';
    const nowWaiting = changedSettings(digests, digestSettings(loaded.settings));
    if (nowWaiting.join() !== waiting.join()) {
      if (nowWaiting.length === 0) emit({ name: 'settings.restart_unneeded', settings: [] });
      else emit({ name: 'settings.restart_needed', settings: nowWaiting });
      waiting = nowWaiting;
    }
  };
  const checkOnce = async (): Promise<void> => {
    try {
      const loaded = load();
      files?.follow(filesOf(loaded));
      await take(loaded);
    } catch (error) {
      refuse(error);
    }
  };
  /** Reads them again; when this returns, all changes are in force, or refused together and reported. */
  const check = (): Promise<void> => checks.run(checkOnce);
  return {
    /** The settings in force. */
    current: (): RunSettings => current,
    check,
    /**
     * Begins to follow changes, and applies those since the first reading.
     * @param taker applies changed settings to the daemon; if it throws, they are refused together
     */
    begin: (taker: TakeSettings): Promise<void> => {
      takeAll = taker;
      files = watchFiles(filesOf(first), () => void check());
      return check();
    },
    close: async (): Promise<void> => {
      await files?.close();
      // After all requested checks.
      await checks.run(() => Promise.resolve());
    },
  };
}

/** The failure to apply settings, with its message in one line. */
export function failureIn(error: unknown): EventFailure {
  const failure = eventFailure(error);
  return { ...failure, message: oneLine(failure.message) };
}

/** The files of the settings and, where one is a link, the file that it leads to. */
function filesOf({ configFile, settings }: ReturnType<LoadSettings>): string[] {
  const named = [...(configFile === undefined ? [] : [configFile]), ...filesOfSettings(settings)];
  return named.flatMap((file) => [file, placeOf(file)]);
}

function placeOf(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    // It may appear later.
    return file;
  }
}

/** Quiet time before files are read, in milliseconds: editors and Kubernetes replace files in several steps. */
const QUIET_MS = 300;

/**
 * Reports that something may have changed in the folders of some files. It watches the folders, not the files: a replaced
 * file has another inode, and Kubernetes swaps a link next to it ("AtomicWriter": `..data`). These are only hints; if
 * nothing can be watched, none comes.
 * @param onHint called when all has been quiet again
 */
function watchFiles(files: readonly string[], onHint: () => void) {
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
  // Replacing a link by a link causes no event of its own, but raw events of the folder.
  watcher.on('raw', hint);
  watcher.on('all', hint);
  watcher.on('error', () => {});
  return {
    /** Watches these files, too. */
    follow: (next: readonly string[]): void => {
      for (const file of next) {
        const folder = dirname(file);
        if (!folders.has(folder)) watcher.add(folder);
        folders.add(folder);
      }
    },
    close: async (): Promise<void> => {
      clearTimeout(timer);
      await watcher.close();
    },
  };
}
