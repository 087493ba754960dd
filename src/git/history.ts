import { isWorkbookName } from '../api/media-types.ts';
import type { Git } from './git.ts';
import { type Commit, createLogReader, LOG_ARGUMENTS, type PathChange } from './log.ts';

/** The last change of a workbook on a branch: the commit after which its content is what it is. */
export interface LastChange {
  readonly commit: Commit;
  /** Kind of change (service specification, section 2.3). Git knows no renames: they are a removal and an `add`. */
  readonly action: 'add' | 'modify';
}

/** The workbooks that a commit holds, each with its last change on the way there, by path. */
export type History = ReadonlyMap<string, LastChange>;

/** Reads and remembers the history of branches. */
export interface HistoryCache {
  /** The history of a branch at a head; costs nothing while the head stays the same. */
  readonly of: (repositoryId: string, gitDirectory: string, branch: string, head: string) => Promise<History>;
  /** Forgets every branch that is not among the given keys of {@link branchKey}. */
  readonly keepOnly: (keys: ReadonlySet<string>) => void;
}

/** Names one branch of one repository; no branch name holds a space. */
export function branchKey(repositoryId: string, branch: string): string {
  return `${repositoryId} ${branch}`;
}

/** Git's modes of a regular file; a link or a submodule is no workbook, whatever its name. */
const FILE_MODES: ReadonlySet<string> = new Set(['100644', '100664', '100755']);

/** Makes the history at a commit out of the changes that led there. */
export interface Fold {
  /** Takes the changes newest first; of each path only the first one counts. */
  readonly add: (change: PathChange) => void;
  /** @param base the history at the commit before the oldest change, empty when that is the very first one */
  readonly finish: (base: History) => History;
}

/** Makes an empty {@link Fold}. */
export function createFold(): Fold {
  const newest = new Map<string, LastChange | null>();
  return {
    add({ commit, path, letter, mode }) {
      if (newest.has(path) || !isWorkbookName(path)) return;
      newest.set(path, FILE_MODES.has(mode) ? { commit, action: letter === 'A' ? 'add' : 'modify' } : null);
    },
    finish(base) {
      const history = new Map(base);
      for (const [path, change] of newest) {
        if (change === null) history.delete(path);
        else history.set(path, change);
      }
      return history;
    },
  };
}

interface Known {
  readonly head: string;
  readonly history: Promise<History>;
}

/** Makes an empty cache. */
export function createHistoryCache(git: Git): HistoryCache {
  const known = new Map<string, Known>();

  /** Walks a branch from its head down, without what the excluded commit contains. */
  async function walk(gitDirectory: string, head: string, excluded: readonly string[]) {
    const fold = createFold();
    let oldest: Commit | undefined;
    const read = createLogReader((commit) => {
      oldest = commit;
    }, fold.add);
    await git.tokens(gitDirectory, [...LOG_ARGUMENTS, head, ...excluded.map((id) => `^${id}`), '--'], read);
    return { fold, startsAfter: oldest?.parentId ?? null };
  }

  /** Continues a known history, or gives null where the new head's first parents do not lead to the known head. */
  async function extend(gitDirectory: string, head: string, previous: Known): Promise<History | null> {
    try {
      const base = await previous.history;
      const { fold, startsAfter } = await walk(gitDirectory, head, [previous.head]);
      return startsAfter === previous.head ? fold.finish(base) : null;
    } catch {
      // The old head may be gone from the repository altogether.
      return null;
    }
  }

  async function compute(gitDirectory: string, head: string, previous?: Known): Promise<History> {
    const extended = previous === undefined ? null : await extend(gitDirectory, head, previous);
    return extended ?? (await walk(gitDirectory, head, [])).fold.finish(new Map());
  }

  function sharedHistory(repositoryId: string, head: string): Promise<History> | undefined {
    for (const [key, entry] of known) {
      if (entry.head === head && key.startsWith(`${repositoryId} `)) return entry.history;
    }
    return undefined;
  }

  return {
    of(repositoryId, gitDirectory, branch, head) {
      const key = branchKey(repositoryId, branch);
      const previous = known.get(key);
      if (previous?.head === head) return previous.history;
      const history = sharedHistory(repositoryId, head) ?? compute(gitDirectory, head, previous);
      known.set(key, { head, history });
      history.catch(() => {
        // A failure is not remembered.
        if (known.get(key)?.history === history) known.delete(key);
      });
      return history;
    },
    keepOnly(keys) {
      for (const key of known.keys()) if (!keys.has(key)) known.delete(key);
    },
  };
}
