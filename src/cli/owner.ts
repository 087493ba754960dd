import { stat } from 'node:fs/promises';

import { unlessMissing } from '../model/disk-errors.ts';

/**
 * Lets root go on as the owner of a directory, for as long as the process runs: what is made there must be the owner's, and the
 * owner, who may put a link in the place of anything in it, must not have root follow that. Does nothing for another user, or
 * for a directory that does not exist yet.
 * @throws what the system says where that owner may not be taken on
 */
export async function becomeOwnerOf(directory: string): Promise<void> {
  if (process.geteuid?.() !== 0) return;
  const owner = await unlessMissing(stat(directory));
  if (owner === null || owner.uid === 0) return;
  // The user comes last: only root may do the rest. The real user stays root, whom the owner cannot send signals.
  process.setgroups?.([owner.gid]);
  process.setegid?.(owner.gid);
  process.seteuid?.(owner.uid);
}
