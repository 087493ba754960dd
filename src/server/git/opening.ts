import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { systemCode } from '../../lib/errors/disk-errors.ts';
import { clearAway, keepExact } from './bare.ts';
import { settleAfterCrash } from './refs.ts';
import { Git } from './git.ts';
import type { RegisteredRepository, RegistryIndex } from './registry-index.ts';

/** What is found wrong in the directory of a registry when that is opened; everything else goes on. */
export type OpeningEvent =
  /** A repository that cannot be used as it is. */
  | { readonly kind: 'unusable'; readonly repository: RegisteredRepository; readonly error: unknown }
  /** Something like a repository that no index knows, at its absolute path; it is kept. */
  | { readonly kind: 'unknown'; readonly path: string };

/** Begins the name of a bare repository that is not in the index yet; a crash may leave one behind. */
export const INCOMING_PREFIX = 'incoming-';

/** Begins the name of what no index knows; nothing looks at it again. */
const LOST_PREFIX = 'lost-';

const REPOSITORY_NAME = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.git$/;

/**
 * Makes the repositories of a registry ready: puts aside what is none of them, and removes what programs left that were ended
 * without warning. To be called while nothing works on them.
 * @param shelf the folder of the repositories
 * @param gitDirectory the bare repository of an id
 */
export async function prepareShelf(
  shelf: string,
  index: RegistryIndex,
  gitDirectory: (id: string) => string,
  onEvent: (event: OpeningEvent) => void,
): Promise<void> {
  const names = await readdir(shelf);
  const leftovers = names.filter((name) => name.startsWith(INCOMING_PREFIX));
  await Promise.all(leftovers.map((name) => rm(join(shelf, name), { recursive: true, force: true })));
  for (const name of names) {
    const [, id] = REPOSITORY_NAME.exec(name) ?? [];
    if (id !== undefined && index.find(id) === undefined)
      onEvent({ kind: 'unknown', path: await putAside(shelf, name) });
  }
  const git = new Git();
  const parts = { git, index, gitDirectory, onEvent };
  await Promise.all(index.list().map((repository) => prepare(repository, parts)));
}

/** @returns where it stands now: where it stood, if it cannot be moved */
async function putAside(shelf: string, name: string): Promise<string> {
  const aside = join(shelf, `${LOST_PREFIX}${name}`);
  return rename(join(shelf, name), aside).then(
    () => aside,
    () => join(shelf, name),
  );
}

interface PreparationParts {
  readonly git: Git;
  readonly index: RegistryIndex;
  readonly gitDirectory: (id: string) => string;
  readonly onEvent: (event: OpeningEvent) => void;
}

/** Makes one repository ready; what is wrong with it is no reason not to serve the others. */
async function prepare(
  repository: RegisteredRepository,
  { git, index, gitDirectory, onEvent }: PreparationParts,
): Promise<void> {
  const { id, source, cloned } = repository;
  try {
    await keepExact(gitDirectory(id));
    await clearAway(gitDirectory(id));
    if (source === null) await settleAfterCrash(git, gitDirectory(id));
  } catch (error) {
    const code = systemCode(error);
    // What is fetched from elsewhere can be had again.
    const isGone = source !== null && (code === 'ENOENT' || code === 'ENOTDIR');
    if (!isGone || cloned) onEvent({ kind: 'unusable', repository, error });
    if (isGone && cloned) await index.markDamaged(id);
  }
}
