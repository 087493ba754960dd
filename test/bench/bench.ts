import { cpSync, symlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, stat, statfs, truncate, utimes, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { build } from '../support/built.ts';
import type { BenchFile, DataSet } from './data.ts';
import { type BenchService, startService } from './service.ts';

/** The options of the command line. */
export interface Options {
  /** Timed runs of each contender, after an uncounted one. */
  readonly runs: number;
  /** Small data, to try the benchmark itself. */
  readonly isQuick: boolean;
  /** Includes rows that take many minutes and gigabytes. */
  readonly isLarge: boolean;
  /** The folder for all files. */
  readonly parent: string;
  /** The compiled program to measure; null for these sources. */
  readonly program: string | null;
}

const TMPFS_MAGIC = 0x01_02_19_94;
const ROOT = resolve(import.meta.dirname, '../..');

/** The context of all scenarios. */
export class Bench {
  readonly options: Options;
  /** The measured program. */
  readonly program: string;
  readonly #folder: string;
  readonly #services = new Map<string, Promise<BenchService>>();
  readonly #closers: (() => Promise<void> | void)[] = [];
  #places = 0;

  private constructor(options: Options, folder: string) {
    this.options = options;
    this.#folder = folder;
    this.program = options.program ?? compiledIn(folder);
  }

  /** Makes the folder of a benchmark, with the compiled program in it. @throws Error if it is in memory */
  static async open(options: Options): Promise<Bench> {
    await mkdir(options.parent, { recursive: true });
    if ((await statfs(options.parent)).type === TMPFS_MAGIC)
      throw new Error(`--dir: ${options.parent} is in memory (tmpfs); what is measured is a disk`);
    return new Bench(options, await mkdtemp(join(options.parent, 'workbook-mirror-bench-')));
  }

  atEnd(close: () => Promise<void> | void): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (const each of this.#closers.splice(0).reverse()) await Promise.allSettled([each()]);
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /** The service of a data set; one for each name. */
  async serve(data: DataSet): Promise<BenchService> {
    const starting = this.#services.get(data.name) ?? startService(data);
    if (!this.#services.has(data.name)) this.atEnd(async () => (await starting).close());
    this.#services.set(data.name, starting);
    return starting;
  }

  /** A new path in a new folder. */
  async place(name: string): Promise<string> {
    const own = join(this.#folder, String((this.#places += 1)));
    await mkdir(own);
    return join(own, name);
  }
}

/** Compiles the sources as `npm run build` does. @returns its main.js */
function compiledIn(folder: string): string {
  build(join(folder, 'dist'));
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return join(folder, 'dist/main.js');
}

/**
 * Frees the blocks of a folder's files. Files are truncated, not removed: on a file system without a journal (ext4, recently_deleted of
 * ialloc.c), new files are slow for minutes after many removals.
 */
export async function empty(folder: string): Promise<void> {
  for (const { path } of await listFiles(folder)) await truncate(path, 0);
}

/** The files below a folder. */
export async function listFiles(folder: string) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  return Promise.all(
    paths.map(async (path) => {
      const { size, ino } = await stat(path);
      return { path, sizeBytes: size, inode: ino };
    }),
  );
}

/** Writes the current files of the first repository. */
export async function writeTree(
  folder: string,
  service: BenchService,
  files: readonly BenchFile[] = service.files,
): Promise<void> {
  for (const file of files) {
    const path = join(folder, file.path);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, service.contentOf(0, file));
    // Tools compare sizes and times: each version needs a plausible time.
    const nowSeconds = Date.now() / 1000;
    await utimes(path, nowSeconds, nowSeconds);
  }
}
