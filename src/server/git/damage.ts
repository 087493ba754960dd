import { MirrorError } from '../../lib/errors/errors.ts';
import type { Git } from './git.ts';

/** A bare repository of the service that cannot be read. */
export class DamagedError extends MirrorError {
  constructor(message: string, cause?: unknown) {
    super('service.failed', message, cause === undefined ? {} : { cause });
  }
}

/** Git's words for a repository that is not whole (LC_ALL=C; git 2.39 to 2.51). */
const DAMAGE =
  /not a git repository|No such ref: HEAD|(?:missing|bad|invalid|corrupt(?:ed)?|broken) (?:object|loose object|blob|tree|commit)|unable to read|is corrupt|reference broken/i;

/** Says whether git's complaint is about a repository that is not whole, and not about the machine. */
function isDamage(complaint: string): boolean {
  return DAMAGE.test(complaint);
}

/** Passes an error on, as a DamagedError where the repository is to blame. */
export function blameRepository(error: unknown): never {
  if (error instanceof MirrorError && isDamage(error.message)) throw new DamagedError(error.message, error);
  throw error;
}

/** What in the exit code of git-fsck(1) tells of objects and packs that are missing or cannot be read, not of odd ones. */
const FSCK_DAMAGE = 2 + 4 + 8;

/** Says whether an end of git-fsck(1) tells of damage; one that says nothing, as of a program that was stopped, does not. */
export function isDamagedExit(code: number | null, complaint: string): boolean {
  if (code === null) return false;
  return code < 128 ? (code & FSCK_DAMAGE) !== 0 : isDamage(complaint);
}

/**
 * Reads a whole bare repository, which may take minutes.
 * @throws DamagedError when something in it is missing or damaged
 */
export async function examine(git: Git, gitDirectory: string): Promise<void> {
  const args = ['fsck', '--full', '--no-dangling', '--no-reflogs', '--no-progress'];
  const { stdout, exit } = git.start(gitDirectory, args);
  stdout.resume();
  const { code, complaint } = await exit;
  if (!isDamagedExit(code, complaint)) return;
  const [first = ''] = complaint.split('\n');
  throw new DamagedError(`something in it is missing or damaged: ${first}`);
}
