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

/** Git's own limits. */
const USUAL_LIMITS: HousekeepingLimits = { looseObjects: 6700, packs: 50 };

/** Objects that no branch holds any more are kept for so long: an upload may still be on its way to a commit. */
const KEPT_UNREACHABLE = '2.weeks.ago';

/**
 * Keeps repositories compact, one at a time: every fetch and push leaves a pack, and every upload single objects. Readers and writers go on meanwhile; git takes care of that.
 * @param gitDirectory the bare repository of an id
 */
export function createHousekeeping(
  git: Git,
  gitDirectory: (repositoryId: string) => string,
  { looseObjects, packs }: HousekeepingLimits = USUAL_LIMITS,
) {
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
    /** To be called after a change: looks, soon, whether it is time to pack the repository anew. Never throws. */
    after(repositoryId: string): void {
      if (waiting.has(repositoryId)) return;
      waiting.add(repositoryId);
      // What fails, or is stopped, loses nothing, and is tried again after the next change.
      turns.run(() => pack(repositoryId)).catch(() => undefined);
    },
    /** Waits until nothing is left to do. */
    idle: async (): Promise<void> => {
      // Its turn comes after everything that waits.
      await turns.run(() => Promise.resolve());
    },
  };
}
