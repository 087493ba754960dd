/** Finds out whether a commit was made when its answer was lost. */

import { someAtOnce } from './pool.js';
import { blobIdAt, listBranches, ServiceError } from './service.js';

/** @typedef {import('./plan.js').Target} Target */
/** @typedef {import('./plan.js').Finding} Finding */

const REQUESTS_AT_ONCE = 4;

/**
 * Reads a branch anew, and sees whether it holds what was to be committed: the service gives the id of a file's content as
 * its entity tag.
 * @param {Target} target
 * @param {readonly { path: string, blobId: string }[]} files with whole paths
 * @param {AbortSignal} signal
 * @returns {Promise<Finding>}
 */
export async function findCommit({ repositoryId, branch, seenCommitId }, files, signal) {
  let isRead = false;
  try {
    const { branches } = await listBranches(repositoryId, signal);
    const commitId = branches.find(({ name }) => name === branch)?.commitId ?? null;
    if (commitId === seenCommitId || commitId === null) return { kind: 'absent' };
    isRead = true;
    await someAtOnce(files, { limit: REQUESTS_AT_ONCE, signal }, async ({ path, blobId }, inner) => {
      if ((await blobIdAt(repositoryId, branch, path, inner)) !== blobId)
        throw new ServiceError(0, 'different', `${path} is something else.`);
    });
    return signal.aborted ? { kind: 'unknown', isRead } : { kind: 'made', commitId };
  } catch (error) {
    if (error instanceof ServiceError) return { kind: 'unknown', isRead };
    throw error;
  }
}
