import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { bindNativeCalls } from '../native/file-calls.ts';
import { type DirectoryLock, lockDirectory } from '../store/lock.ts';

/** The file in the service's directory that carries the lock. */
const LOCK_NAME = 'serve.lock';

/**
 * Makes this process the only one that serves a directory, which is made when it does not exist: the list of repositories is read
 * once, and two writers of it would lose each other's repositories.
 * @throws MirrorError `directory.locked` when another process serves it, `directory.unusable` when it cannot be made
 */
export async function lockServiceDirectory(directory: string): Promise<DirectoryLock> {
  try {
    await mkdir(directory, { recursive: true });
    return await lockDirectory(join(directory, LOCK_NAME), bindNativeCalls());
  } catch (error) {
    if (error instanceof MirrorError && error.code === 'directory.locked') throw inUse(directory, error);
    if (error instanceof MirrorError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `serve.directory: ${directory} cannot be used: ${why}`, {
      cause: error,
      hint: 'Name a folder that this user may write to.',
    });
  }
}

function inUse(directory: string, cause: MirrorError): MirrorError {
  const holder = /\(.*\)/.exec(cause.message)?.[0] ?? '';
  return new MirrorError(
    'directory.locked',
    `Another workbook-mirror serves ${directory} ${holder}`.trim() + '.',
    {
      cause,
      hint: 'Stop the other one, or give this one a directory of its own: the setting serve.directory.',
    },
  );
}
