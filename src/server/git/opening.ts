import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { isMissing } from '../../lib/errors/disk-errors.ts';
import { clearAway, keepExact } from './bare.ts';
import { settleAfterCrash } from './refs.ts';
import { Git } from './git.ts';
import type { RegisteredRepository, RegistryIndex } from './registry-index.ts';

/** A fault that is found in the directory of a registry when that is opened; everything else goes on. */
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
 */
export async function prepareShelf(
  shelf: string,
  index: RegistryIndex,
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
  await Promise.all(
    index.list().map(async (repository) => {
      const error = await prepare(git, repository, gitDirectoryIn(shelf, repository.id));
      if (error === null) return;
      const { id, source, cloned } = repository;
      // What is fetched from elsewhere can be had again.
      const isGone = source !== null && isMissing(error);
      if (!isGone || cloned) onEvent({ kind: 'unusable', repository, error });
      if (isGone && cloned) await index.markDamaged(id);
    }),
  );
}

/** The place of a bare repository among the others. */
export function gitDirectoryIn(shelf: string, id: string): string {
  return join(shelf, `${id}.git`);
}

/** @returns where it stands now: where it stood, if it cannot be moved */
async function putAside(shelf: string, name: string): Promise<string> {
  const aside = join(shelf, `${LOST_PREFIX}${name}`);
  return rename(join(shelf, name), aside).then(
    () => aside,
    () => join(shelf, name),
  );
}

/** Makes one repository ready. @returns why it cannot be used, which is no reason not to serve the others */
async function prepare(git: Git, { source }: RegisteredRepository, gitDirectory: string): Promise<unknown> {
  try {
    await keepExact(gitDirectory);
    await clearAway(gitDirectory);
    if (source === null) await settleAfterCrash(git, gitDirectory);
    return null;
  } catch (error) {
    return error;
  }
}
