import { spawnSync } from 'node:child_process';
import { access, mkdir, mkdtemp, readdir, rm, statfs, truncate } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { UsageError } from '../support/command-line.ts';
import type { DataSetSpec } from './data-set.ts';
import type { Options } from './options.ts';
import { endMeasured } from './measure.ts';
import { type BenchService, startService } from './service.ts';
import { writeTree } from './tree.ts';

/** What all scenarios work with. */
export interface Bench {
  readonly options: Options;
  /** The compiled program that is measured. */
  readonly program: string;
  /** A service on a data set; the same one for the same name. */
  readonly serve: (spec: DataSetSpec) => Promise<BenchService>;
  /** The files of one of its repositories as a tree on disk, in their present versions; made when first asked for. */
  readonly treeOf: (spec: DataSetSpec, at: number) => Promise<string>;
  /** A path that nothing stands at, in a folder of its own. */
  readonly place: (name: string) => Promise<string>;
  /** Gives back the blocks of a folder's files. */
  readonly empty: (folder: string) => Promise<void>;
  /** Has everything that was written flushed, so that no run pays for what came before it. */
  readonly settle: () => void;
  /** Is told what goes on. */
  readonly say: (text: string) => void;
  /** Is told of a contender that failed: the benchmark goes on, and ends as failed. */
  readonly fail: (text: string) => void;
  /** Calls something when the benchmark ends. */
  readonly atEnd: (close: () => Promise<void> | void) => void;
}

/** A benchmark that is to be closed. */
export interface OpenBench extends Bench {
  readonly close: () => Promise<void>;
}

const TMPFS_MAGIC = 0x01_02_19_94;
const ROOT = resolve(import.meta.dirname, '../..');

/**
 * Makes the folder of a benchmark, with the compiled program in it.
 * @throws UsageError where the folder is in memory, or the program cannot be compiled
 */
export async function openBench(
  options: Options,
  say: (text: string) => void,
  fail: (text: string) => void,
): Promise<OpenBench> {
  const parent = options.directory ?? join(ROOT, 'node_modules/.bench');
  await mkdir(parent, { recursive: true });
  if ((await statfs(parent)).type === TMPFS_MAGIC) {
    throw new UsageError(`--dir: ${parent} is in memory (tmpfs); what is measured is a disk`);
  }
  const folder = await mkdtemp(join(parent, 'workbook-mirror-bench-'));
  const services = new Map<string, Promise<BenchService>>();
  const trees = new Map<string, Promise<string>>();
  const closers: Array<() => Promise<void> | void> = [];
  let places = 0;
  const close = async (): Promise<void> => {
    endMeasured();
    // One that fails must not leave the others running.
    for (const each of closers.splice(0).reverse()) await Promise.allSettled([(async () => each())()]);
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  const serve = async (spec: DataSetSpec): Promise<BenchService> => {
    const known = services.get(spec.name);
    if (known !== undefined) return known;
    say(`making the data set ${spec.name}`);
    const starting = startService(join(folder, 'data', spec.name), spec);
    services.set(spec.name, starting);
    const service = await starting;
    closers.push(service.close);
    return service;
  };
  try {
    const program = options.program === null ? compile(folder, say) : await programAt(options.program);
    return {
      options,
      program,
      say,
      fail,
      serve,
      treeOf: async (spec, at) => {
        const tree = join(folder, 'trees', spec.name, String(at));
        const { repositories } = await serve(spec);
        const making = trees.get(tree) ?? writeTree(tree, repositories[at]?.files ?? []);
        trees.set(tree, making);
        return making;
      },
      place: async (name) => {
        places += 1;
        const own = join(folder, 'places', String(places));
        await mkdir(own, { recursive: true });
        return join(own, name);
      },
      empty,
      settle: () => spawnSync('sync'),
      atEnd: (closer) => closers.push(closer),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function programAt(path: string): Promise<string> {
  try {
    await access(path);
  } catch {
    throw new UsageError(`--program: there is no ${path}`);
  }
  return resolve(path);
}

/** Compiles the sources as `npm run build` does, into a folder that no other program uses. @returns its main.js */
function compile(folder: string, say: (text: string) => void): string {
  say('compiling the program');
  const script = `set -e
node .ci/build.ts "$1/dist"
cp package.json "$1/"
ln -s "$PWD/node_modules" "$1/node_modules"`;
  const { status, stdout } = spawnSync('sh', ['-c', script, 'compile', folder], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  if (status !== 0) throw new UsageError(`the program cannot be compiled:\n${stdout}`);
  return join(folder, 'dist/main.js');
}

/**
 * Files are cut to nothing, not removed: a file system without a journal (ext4, recently_deleted of ialloc.c) makes every new file slow for
 * minutes after many were removed, and would have each run pay for the one before it.
 */
async function empty(folder: string): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) if (entry.isFile()) await truncate(join(entry.parentPath, entry.name), 0);
}
