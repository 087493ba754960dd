import { Places } from '../../lib/concurrency/places.ts';
import type { Git } from './git.ts';
import { settingArguments } from './git-process.ts';

/** When a repository is packed anew, and what of it is thrown away then (git-gc(1)). */
export interface HousekeepingLimits {
  /** More single objects than this, about. */
  readonly looseObjects: number;
  /** More packs than this. */
  readonly packs: number;
}

/** Keeps repositories compact: every fetch and push leaves a pack, and every upload single objects. */
export interface Housekeeping {
  /** To be called after a change: looks, soon, whether it is time to pack the repository anew. Never throws. */
  readonly after: (repositoryId: string) => void;
  /** Waits until nothing is left to do. */
  readonly idle: () => Promise<void>;
}

/** Git's own limits. */
const USUAL_LIMITS: HousekeepingLimits = { looseObjects: 6700, packs: 50 };

/** What no branch holds any more is kept for so long: an upload may still be on its way to a commit. */
const KEPT_UNREACHABLE = '2.weeks.ago';

/**
 * Makes the housekeeping of repositories, one at a time. Readers and writers go on meanwhile; git takes care of that.
 * @param gitDirectory the bare repository of an id
 */
export function createHousekeeping(
  git: Git,
  gitDirectory: (repositoryId: string) => string,
  { looseObjects, packs }: HousekeepingLimits = USUAL_LIMITS,
): Housekeeping {
  const turns = new Places(1);
  const waiting = new Set<string>();
  const settings = settingArguments(
    `gc.auto=${looseObjects}`,
    `gc.autoPackLimit=${packs}`,
    `gc.pruneExpire=${KEPT_UNREACHABLE}`,
    'gc.autoDetach=false',
  );

  async function pack(repositoryId: string): Promise<void> {
    waiting.delete(repositoryId);
    await git.run(gitDirectory(repositoryId), [...settings, 'gc', '--auto', '--quiet']);
  }

  return {
    after(repositoryId) {
      if (waiting.has(repositoryId)) return;
      waiting.add(repositoryId);
      // What fails, or is stopped, loses nothing, and is tried again after the next change.
      turns.run(() => pack(repositoryId)).catch(() => undefined);
    },
    idle: async () => {
      // Its turn comes after everything that waits.
      await turns.run(() => Promise.resolve());
    },
  };
}
