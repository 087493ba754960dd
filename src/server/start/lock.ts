import { join } from 'node:path';

import { type DirectoryLock, LockedError, lockDirectory } from '../../lib/disk/lock.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';

/**
 * Makes this process the only one that serves a directory: each process reads the list of repositories once, so two of them would
 * lose each other's repositories.
 * @throws MirrorError `directory.locked` when another process serves it
 */
export async function lockServiceDirectory(directory: string): Promise<Pick<DirectoryLock, 'release'>> {
  return lockDirectory(join(directory, 'serve.lock'), bindNativeCalls()).catch((error: unknown) => {
    if (!(error instanceof LockedError)) throw error;
    const message = `Another workbook-mirror serves ${directory} (${error.found.trim()}).`;
    throw new MirrorError('directory.locked', message, {
      cause: error,
      hint: 'Stop the other one, or give this one a directory of its own: the setting serve.directory.',
    });
  });
}
