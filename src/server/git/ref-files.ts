import { type BigIntStats, readdirSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';

/** Tells two states of a file or folder apart. */
export interface Stamp {
  readonly path: string;
  /** Null where there is nothing at the path. */
  readonly state: {
    readonly inode: bigint;
    readonly sizeBytes: bigint;
    /** Nanoseconds since 1970. */
    readonly modifiedNs: bigint;
    /** Nanoseconds since 1970; no program can set it. */
    readonly changedNs: bigint;
  } | null;
}

/** The files that Git keeps the references of a repository in (gitrepository-layout(5)), as they were at one moment. */
export interface RefFiles {
  readonly stamps: readonly Stamp[];
  /** Names of the branches that have a file of their own, whether it leads to a commit or not. */
  readonly looseBranches: readonly string[];
  /** Whether every later change of a branch shows as another stamp. */
  readonly isConclusive: boolean;
}

const NS_PER_MS = 1_000_000n;
const NS_PER_SECOND = 1_000_000_000n;
/** Longer than any tick of the clock that Linux and macOS set the times of files by. */
const TICK_NS = 50n * NS_PER_MS;
/** A file system without fractions of a second may even round to two seconds (FAT). */
const COARSE_TICK_NS = 2n * NS_PER_SECOND;

/**
 * Whether a file that changes from now on gets other times than it has. One that changed within the present tick of the clock
 * may change once more within it and look the same; so may one whose times lie in the future.
 * @param readAtNs when the stamp was read, in nanoseconds since 1970
 */
export function isSettled({ state }: Stamp, readAtNs: bigint): boolean {
  if (state === null) return true;
  const { modifiedNs, changedNs } = state;
  const isCoarse = modifiedNs % NS_PER_SECOND === 0n && changedNs % NS_PER_SECOND === 0n;
  const newestNs = modifiedNs > changedNs ? modifiedNs : changedNs;
  return newestNs < readAtNs - (isCoarse ? COARSE_TICK_NS : TICK_NS);
}

function readStats(path: string): BigIntStats | undefined {
  return statSync(path, { bigint: true, throwIfNoEntry: false });
}

function stampOf(path: string, stats: BigIntStats | undefined): Stamp {
  if (stats === undefined) return { path, state: null };
  const { ino, size, mtimeNs, ctimeNs } = stats;
  return { path, state: { inode: ino, sizeBytes: size, modifiedNs: mtimeNs, changedNs: ctimeNs } };
}

/**
 * Adds the stamps of a folder of references and of everything below it, and the paths of the files.
 * @returns false when something there is neither file nor folder, so that what it stands for may change elsewhere
 */
function addFolder(path: string, stamps: Stamp[], files: string[]): boolean {
  // The folder before what it holds: what is added to it meanwhile shows the next time.
  const stats = readStats(path);
  stamps.push(stampOf(path, stats));
  if (stats === undefined) return true;
  if (!stats.isDirectory()) return false;
  let isPlain = true;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const below = join(path, entry.name);
    if (entry.isDirectory()) isPlain = addFolder(below, stamps, files) && isPlain;
    else if (entry.isFile()) {
      stamps.push(stampOf(below, readStats(below)));
      files.push(below);
    } else isPlain = false;
  }
  return isPlain;
}

/**
 * Reads the stamps of the files that hold the branches of a repository. Where they are kept in another way (reftable), or
 * cannot be read, the result is not conclusive.
 *
 * These calls do not let others go first: each takes a few microseconds, and handing it to a thread takes longer.
 */
export function readRefFiles(gitDirectory: string): RefFiles {
  const readAtNs = BigInt(Date.now()) * NS_PER_MS;
  try {
    const stamps = ['HEAD', 'packed-refs'].map((name) => {
      const path = join(gitDirectory, name);
      return stampOf(path, readStats(path));
    });
    const heads = join(gitDirectory, 'refs', 'heads');
    const looseFiles: string[] = [];
    const isPlain = addFolder(heads, stamps, looseFiles);
    const looseBranches = looseFiles.map((path) => relative(heads, path));
    return {
      stamps,
      looseBranches,
      isConclusive: isPlain && stamps.every((stamp) => isSettled(stamp, readAtNs)),
    };
  } catch {
    // Whatever it is, git meets it as well and says it better.
    return { stamps: [], looseBranches: [], isConclusive: false };
  }
}

/** Whether no branch has changed since the stamps were read; false where that cannot be told. */
export function isUnchanged({ stamps, isConclusive }: RefFiles): boolean {
  if (!isConclusive) return false;
  try {
    return stamps.every(({ path, state }) => {
      const now = stampOf(path, readStats(path)).state;
      if (state === null || now === null) return state === now;
      return (
        state.changedNs === now.changedNs &&
        state.modifiedNs === now.modifiedNs &&
        state.inode === now.inode &&
        state.sizeBytes === now.sizeBytes
      );
    });
  } catch {
    return false;
  }
}
