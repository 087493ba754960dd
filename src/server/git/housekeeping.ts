import { Places } from '../../lib/concurrency/places.ts';
import { type Git, settingArguments } from './git.ts';

/** Git's own limits of when a repository is packed (git-gc(1)). Objects of no branch stay: an upload may still become a commit. */
const SETTINGS = settingArguments(
  'gc.auto=6700',
  'gc.autoPackLimit=50',
  'gc.pruneExpire=2.weeks.ago',
  'gc.autoDetach=false',
);

/**
 * Keeps repositories compact, one at a time: every fetch and push leaves a pack, and every upload single objects. Git takes care of those
 * who read and write at the same time.
 * @param gitDirectory gives the bare repository of an id
 * @returns a function to be called with an id after a change; it never throws
 */
export function createHousekeeping(
  git: Git,
  gitDirectory: (repositoryId: string) => string,
): (repositoryId: string) => void {
  const turns = new Places(1);
  const waiting = new Set<string>();
  const pack = async (repositoryId: string): Promise<void> => {
    waiting.delete(repositoryId);
    await git.run(gitDirectory(repositoryId), [...SETTINGS, 'gc', '--auto', '--quiet']);
  };
  return (repositoryId) => {
    if (waiting.has(repositoryId)) return;
    waiting.add(repositoryId);
    // What fails, or is stopped, loses nothing, and is tried again after the next change.
    turns.run(() => pack(repositoryId)).catch(() => undefined);
  };
}
