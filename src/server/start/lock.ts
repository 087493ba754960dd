import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls, type NativeCalls } from '../../lib/native/file-calls.ts';
import { type DirectoryLock, lockDirectory } from '../../lib/disk/lock.ts';
import { makeServeDirectory } from './directory.ts';
import { closeToOthers, PRIVATE_FILE } from './privacy.ts';

/** The file in the service's directory that carries a lock, and says whose it is. */
const LOCK_NAME = 'serve.lock';

/** Codes of file systems that lock only what is open for writing, which a folder never is (flock(2), NFS), or nothing at all. */
const NO_LOCKS: ReadonlySet<string | undefined> = new Set([
  'EBADF',
  'EINVAL',
  'ENOLCK',
  'ENOSYS',
  'EOPNOTSUPP',
]);

/**
 * Makes this process the only one that serves a directory, which is made when it does not exist: the list of repositories is read
 * once, and two writers of it would lose each other's repositories. The folder itself is locked beside the file in it, which
 * somebody may remove.
 * @throws MirrorError `directory.locked` when another process serves it, `directory.unusable` when it cannot be made
 */
export async function lockServiceDirectory(directory: string): Promise<Pick<DirectoryLock, 'release'>> {
  const native = bindNativeCalls();
  let folder: FileHandle | null = null;
  try {
    await makeServeDirectory(directory);
    await closeLockFile(join(directory, LOCK_NAME));
    folder = await open(directory, 'r');
    if (!lockFolder(folder, native)) throw await lockedFolder(directory);
    const file = await lockDirectory(join(directory, LOCK_NAME), native);
    const held = folder;
    return {
      release: async () => {
        await file.release();
        await held.close();
      },
    };
  } catch (error) {
    await folder?.close();
    if (error instanceof MirrorError && error.code === 'directory.locked') throw inUse(directory, error);
    if (error instanceof MirrorError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `serve.directory: ${directory} cannot be used: ${why}`, {
      cause: error,
      hint: 'Name a folder that this user may write to.',
    });
  }
}

/** Lets this user alone open the file: a lock needs no more than an open file, even one opened to read (flock(2)). */
async function closeLockFile(path: string): Promise<void> {
  const handle = await open(path, 'a', PRIVATE_FILE);
  await handle.close();
  await closeToOthers(path);
}

/** Locks a folder where that is possible. @returns false when another process has it */
function lockFolder(folder: FileHandle, native: NativeCalls): boolean {
  try {
    return native.tryLock(folder.fd);
  } catch (error) {
    if (NO_LOCKS.has(systemCode(error))) return true;
    throw error;
  }
}

async function lockedFolder(directory: string): Promise<MirrorError> {
  const holder = (await readFile(join(directory, LOCK_NAME), 'utf8').catch(() => '')).slice(0, 200).trim();
  return new MirrorError('directory.locked', `Another process has it${holder === '' ? '' : ` (${holder})`}.`);
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
