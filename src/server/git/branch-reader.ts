import type { Git } from './git.ts';
import { isUnchanged, type RefFiles, readRefFiles } from './ref-files.ts';
import { type Branches, type HeadsRead, readDefaultBranch, readHeadsWhole } from './refs.ts';

/** Commit id of every branch by branch name. */
export type Heads = ReadonlyMap<string, string>;

interface Reading {
  readonly files: RefFiles;
  readonly heads: Promise<HeadsRead>;
  /** Read when it is first asked for: most readers want the heads only. */
  defaultBranch: Promise<string | null> | null;
  /** Whether `files` tells of every change; false also as long as that is not known. */
  isReliable: boolean;
}

function areEqual(left: Heads, right: Heads): boolean {
  return left.size === right.size && [...left].every(([branch, head]) => right.get(branch) === head);
}

/** Reads the branches of bare repositories. */
export type BranchReader = ReturnType<typeof createBranchReader>;

/** Reads branches, and reads them again only when the files that they are kept in have changed. */
export function createBranchReader(git: Git) {
  const readings = new Map<string, Reading>();

  /** Reads the heads, and gives the known map where it is still right. */
  async function readHeads(gitDirectory: string, before: Reading | undefined): Promise<HeadsRead> {
    const read = await readHeadsWhole(git, gitDirectory);
    const known = (await before?.heads.catch(() => undefined))?.heads;
    return known !== undefined && areEqual(known, read.heads) ? { ...read, heads: known } : read;
  }

  /** Finds out whether a reading can be kept. */
  async function judge(reading: Reading, gitDirectory: string): Promise<void> {
    try {
      const { heads, dependOnOthers } = await reading.heads;
      const { isConclusive, looseBranches } = reading.files;
      // A branch that is not listed may stand for a reference that does not exist yet, and come to life with it.
      const areListed = looseBranches.every((branch) => heads.has(branch));
      reading.isReliable = isConclusive && areListed && !dependOnOthers;
    } catch {
      // A failure is not remembered.
      if (readings.get(gitDirectory) === reading) readings.delete(gitDirectory);
    }
  }

  /** Gives a reading that began after every change that was made before the call, or that nothing has changed since. */
  function current(gitDirectory: string): Reading {
    const before = readings.get(gitDirectory);
    if (before?.isReliable === true && isUnchanged(before.files)) return before;
    // The files before what they say: what is written meanwhile shows the next time.
    const files = readRefFiles(gitDirectory);
    const heads = readHeads(gitDirectory, before);
    const reading: Reading = { files, heads, defaultBranch: null, isReliable: false };
    readings.set(gitDirectory, reading);
    void judge(reading, gitDirectory);
    return reading;
  }

  async function defaultBranchOf(reading: Reading, gitDirectory: string): Promise<string | null> {
    const asked = (reading.defaultBranch ??= readDefaultBranch(git, gitDirectory));
    try {
      return await asked;
    } catch (error) {
      reading.defaultBranch = null;
      throw error;
    }
  }

  return {
    /**
     * The heads as they are at the moment of the call: whatever any program wrote before shows.
     * @returns the same map as long as no branch has moved
     * @throws MirrorError `service.failed` when git cannot read them
     */
    heads: async (gitDirectory: string): Promise<Heads> => (await current(gitDirectory).heads).heads,
    /**
     * The heads and the default branch, as exact as `heads`.
     * @throws MirrorError `service.failed` when git cannot read them
     */
    async branches(gitDirectory: string): Promise<Branches> {
      const reading = current(gitDirectory);
      const [{ heads }, defaultBranch] = await Promise.all([
        reading.heads,
        defaultBranchOf(reading, gitDirectory),
      ]);
      return { defaultBranch, heads };
    },
    /** Forgets the repositories that are not among the given ones. */
    keepOnly(gitDirectories: ReadonlySet<string>): void {
      for (const path of readings.keys()) if (!gitDirectories.has(path)) readings.delete(path);
    },
  };
}
