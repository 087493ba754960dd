import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { ownUserName } from '../disk/place-facts.ts';
import { unlessMissing } from '../errors/disk-errors.ts';
import { MirrorError } from '../errors/errors.ts';
import { PROGRAM_FOLDER } from './program-folder.ts';

let asOwner = <T>(start: () => T): T => start();

/** Starts a program with the rights of this process alone: after {@link becomeOwnerOf}, it cannot become root again. */
export function withOwnRights<T>(start: () => T): T {
  return asOwner(start);
}

/**
 * Makes root continue as the owner of a directory, for as long as the process runs: new files there must be the owner's, and the
 * owner, who may replace anything in it by a link, must not have root follow that link. Does nothing for another user, or
 * for a directory that does not exist yet.
 * @throws MirrorError `directory.unusable` if that owner cannot get there; system errors if the identity cannot be changed
 */
export async function becomeOwnerOf(directory: string): Promise<void> {
  if (process.geteuid?.() !== 0) return;
  const owner = await unlessMissing(stat(directory));
  if (owner === null || owner.uid === 0) return;
  // The user comes last: only root may do the rest. The real user stays root, whom the owner cannot send signals.
  process.setgroups?.([owner.gid]);
  process.setegid?.(owner.gid);
  process.seteuid?.(owner.uid);
  const refuseUnlessOpen = (folder: string, problem: string, hint: string): Promise<unknown> =>
    // access(2) would ask for the real user, who is still root.
    stat(join(folder, '.')).catch((cause: unknown) => {
      const message = `Root works in ${directory} as its owner, user ${owner.uid}, who cannot ${problem}.`;
      throw new MirrorError('directory.unusable', message, { cause, hint });
    });
  const letIn = 'Let that user enter the folders above it (chmod o+x), or make root its owner.';
  await refuseUnlessOpen(directory, 'get there', letIn);
  // Parts of the program are loaded when they are needed.
  const program = fileURLToPath(PROGRAM_FOLDER);
  const elsewhere = 'Install the program where every user can read it, such as in /usr/local/lib.';
  await refuseUnlessOpen(program, `read the program in ${program}`, elsewhere);
  const { bindRealUser } = await import('../native/identity.ts');
  asOwner = bindRealUser();
}

/** The name of the user of this process. */
export function userName(): string {
  return ownUserName() ?? `uid ${process.getuid?.()}`;
}
