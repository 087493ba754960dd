import { access, constants, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import type { Settings } from '../../config/schema.ts';
import { makeFolders } from '../../lib/disk/durable.ts';
import { type DirectoryLock, LockedError, lockDirectory } from '../../lib/disk/lock.ts';
import { causeOf, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls } from '../../lib/native/file-calls.ts';

/** The directory of the embedded service. @throws MirrorError `settings.invalid` when it is not set */
export function requiredServeDirectory({ directory }: Settings['serve']): string {
  if (directory !== undefined) return directory;
  const message = 'serve.directory is missing: set the folder where the service keeps its repositories.';
  throw new MirrorError('settings.invalid', message, {
    hint: 'Give --serve-directory DIR, the variable WORKBOOK_MIRROR_SERVE_DIRECTORY, or the key in the settings file.',
  });
}

/** Entries that only the directory of a mirror has. */
const SIGNS_OF_MIRROR: ReadonlySet<string> = new Set(['manifests', '.workbook-mirror']);

/**
 * Makes the directory of a service, for its own user only, unless it exists.
 * @returns whether it was made
 * @throws MirrorError `directory.unusable` for a file, the directory of a mirror, and a folder that this user may not write to
 */
export async function prepareServeDirectory(directory: string): Promise<boolean> {
  try {
    await makeFolders(dirname(directory));
    const isNew = await mkdir(directory, { mode: 0o700 }).then(
      () => true,
      async (error: unknown) => {
        if (!(await isFolder(directory))) throw error;
        return false;
      },
    );
    const sign = (await readdir(directory)).find((name) => SIGNS_OF_MIRROR.has(name));
    if (sign !== undefined)
      throw unusable(
        `serve.directory: ${directory} is the directory of a mirror: it holds ${sign}/.`,
        'Give the service a directory of its own. To answer from that mirror, use serve --from-mirror --directory.',
      );
    await access(directory, constants.W_OK | constants.X_OK);
    return isNew;
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    const isFile = ['EEXIST', 'ENOTDIR'].includes(systemCode(error) ?? '');
    const why = isFile
      ? 'a file is in the place of a folder'
      : (causeOf(error)?.what ?? toMirrorError(error).message);
    const hint = 'Name a folder that this user may write to.';
    throw unusable(`serve.directory: ${directory} cannot be used: ${why}.`, hint, error);
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await unlessMissing(stat(path)))?.isDirectory() === true;
}

function unusable(message: string, hint: string, cause?: unknown): MirrorError {
  return new MirrorError('directory.unusable', message, { hint, cause });
}

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

/** Refuses a missing directory of keys: after a typing error, the service would make temporary keys. @throws MirrorError `directory.unusable` */
export async function refuseMissingServeDirectory(directory: string): Promise<void> {
  if (await isFolder(directory)) return;
  throw unusable(
    `serve.directory: ${directory} is not a directory.`,
    'Name the directory of a service, to use its keys here, too, or omit it: serve.apiKey and serve.apiToken need none.',
  );
}

/** Refuses a directory that is not a mirror. @throws MirrorError `directory.unusable` */
export async function refuseNoMirror(directory: string): Promise<void> {
  if (await isFolder(join(directory, 'manifests'))) return;
  const message = `directory: ${directory} is not a mirror: it holds no manifests/.`;
  throw unusable(message, 'Name the folder that holds mirror/ and manifests/.');
}
