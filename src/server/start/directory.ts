import { access, constants, mkdir, readdir, stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

import type { Settings } from '../../config/schema.ts';
import { systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { PRIVATE_FOLDER } from './privacy.ts';

/** Where the embedded service keeps what it serves. @throws MirrorError `settings.invalid` when no setting says so */
export function requiredServeDirectory({ directory }: Settings['serve']): string {
  if (directory !== undefined) return directory;
  throw new MirrorError(
    'settings.invalid',
    'serve.directory is missing: set the folder where the service keeps its repositories.',
    {
      hint: 'Give --serve-directory DIR, the variable WORKBOOK_MIRROR_SERVE_DIRECTORY, or the key in the settings file.',
    },
  );
}

/** Entries that only the directory of a mirror has. */
const SIGNS_OF_MIRROR: ReadonlySet<string> = new Set(['manifests', '.workbook-mirror']);

/**
 * Makes the directory of a service where there is none, and refuses what cannot be one.
 * @returns whether it was made
 * @throws MirrorError `directory.unusable` for a file, the directory of a mirror, and where this user may not write
 */
export async function prepareServeDirectory(directory: string): Promise<boolean> {
  try {
    const found = await unlessMissing(stat(directory));
    if (found === null) {
      await makeServeDirectory(directory);
      return true;
    }
    if (!found.isDirectory()) throw unusable(`${directory} is a file, not a directory.`, OWN_DIRECTORY);
    const sign = (await readdir(directory)).find((name) => SIGNS_OF_MIRROR.has(name));
    if (sign !== undefined) throw refusedMirror(directory, sign);
    await access(directory, constants.W_OK | constants.X_OK);
    return false;
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    const why =
      REASONS.get(systemCode(error) ?? '') ?? (error instanceof Error ? error.message : String(error));
    throw unusable(
      `${directory} cannot be used: ${why}.`,
      'Name a folder that this user may write to.',
      error,
    );
  }
}

/** Makes the directory of a service, for its own user alone, unless it is there; its parents are made as others are. */
export async function makeServeDirectory(directory: string): Promise<void> {
  await mkdir(dirname(directory), { recursive: true });
  await mkdir(directory, { mode: PRIVATE_FOLDER }).catch((error: unknown) => {
    if (systemCode(error) !== 'EEXIST') throw error;
  });
}

const OWN_DIRECTORY = 'Give the service a directory of its own: serve.directory.';

/** Why a directory cannot be made or written to (mkdir(2), access(2)). */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['EACCES', 'this user may not write there'],
  ['EPERM', 'this user may not write there'],
  ['EROFS', 'the file system is read-only'],
  ['ENOTDIR', 'a file stands where a folder would have to be'],
  ['EEXIST', 'a file stands where a folder would have to be'],
]);

function unusable(message: string, hint: string, cause?: unknown): MirrorError {
  return new MirrorError('directory.unusable', `serve.directory: ${message}`, { hint, cause });
}

function refusedMirror(directory: string, sign: string): MirrorError {
  return unusable(
    `${directory} is the directory of a mirror: it holds ${sign}/.`,
    `${OWN_DIRECTORY} To answer from that mirror, use serve --from-mirror --directory.`,
  );
}

/** Refuses a directory of keys that is not there: a slip would have keys be made up. @throws MirrorError `directory.unusable` */
export async function refuseMissingServeDirectory(directory: string): Promise<void> {
  const found = await unlessMissing(stat(directory));
  if (found?.isDirectory() === true) return;
  throw unusable(
    found === null ? `${directory} does not exist.` : `${directory} is a file, not a directory.`,
    'Name the directory of a service, whose keys then hold here, too, or leave it out: serve.apiKey and serve.apiToken need none.',
  );
}

/** Refuses what is no directory of a mirror. @throws MirrorError `directory.unusable` */
export async function refuseNoMirror(directory: string): Promise<void> {
  const has = async (folder: string): Promise<boolean> => {
    // Missing permission is no refusal here: it is reported where the folder is read.
    const names = await readdir(folder).catch((error: unknown) => {
      const code = systemCode(error);
      if (code === 'ENOENT' || code === 'ENOTDIR') return [];
      return ['manifests'];
    });
    return names.includes('manifests');
  };
  if (await has(directory)) return;
  const above = dirname(directory);
  const isBelow = ['mirror', 'manifests'].includes(basename(directory)) && (await has(above));
  const found = await unlessMissing(stat(directory));
  const why =
    found === null
      ? 'does not exist'
      : found.isDirectory()
        ? 'is not a mirror: it holds no manifests/'
        : 'is a file, not a mirror';
  throw new MirrorError('directory.unusable', `directory: ${directory} ${why}.`, {
    hint: isBelow ? `Give the folder above it: ${above}` : 'Name the folder that a mirror was made in.',
  });
}
