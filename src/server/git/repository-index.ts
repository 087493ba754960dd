import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { repositorySchema } from '../../lib/api/schemas.ts';
import { replaceFile } from '../../lib/disk/durable.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';

/** Name of the index file in the service's directory. */
const INDEX_NAME = 'repositories.json';

const ROWS = z.array(
  z.object({
    ...repositorySchema.shape,
    url: z.string().nullable().default(null),
    created_at: z.iso.datetime({ offset: true }),
    /** The address or path from which an external repository is fetched; null for a drag-and-drop repository. */
    source: z.string().nullable().catch(null),
    /** False until an external repository has been fetched for the first time. */
    cloned: z.boolean().catch(true),
  }),
);

/** A repository in the index. */
export type RegisteredRepository = Readonly<z.infer<typeof ROWS>[number]>;

/**
 * Reads the index in a directory. A directory without repositories gets an empty one, so that a missing index later means that it was
 * lost.
 * @throws MirrorError `directory.unusable` when it cannot be read, or is missing where there are repositories
 */
export async function openIndex(directory: string): Promise<readonly RegisteredRepository[]> {
  const path = join(directory, INDEX_NAME);
  try {
    const text = await unlessMissing(readFile(path, 'utf8'));
    if (text !== null) return ROWS.parse(JSON.parse(text));
  } catch (error) {
    const why =
      error instanceof z.ZodError ? 'it is not a list of repositories' : toMirrorError(error).message;
    const message = `the repository index ${path} cannot be read: ${why}`;
    throw new MirrorError('directory.unusable', message, { cause: error });
  }
  await refuseLost(directory);
  await writeIndex(directory, []);
  return [];
}

/**
 * Refuses to start an empty index if repositories exist: a mirror would consider all of them deleted.
 * @throws MirrorError `directory.unusable`
 */
async function refuseLost(directory: string): Promise<void> {
  const shelf = join(directory, 'repositories');
  const names = (await unlessMissing(readdir(shelf))) ?? [];
  if (!names.some((name) => name.endsWith('.git'))) return;
  const message = `${join(directory, INDEX_NAME)} is missing, but ${shelf} holds repositories.`;
  throw new MirrorError('directory.unusable', message, {
    hint: `Restore ${INDEX_NAME} from the backup that the repositories come from. To start with none, move ${shelf} away first. Nothing was changed.`,
  });
}

/** Replaces the index; resolves once that is durable. */
export function writeIndex(directory: string, rows: readonly RegisteredRepository[]): Promise<void> {
  return replaceFile(join(directory, INDEX_NAME), `${JSON.stringify(rows, null, 2)}\n`, directory);
}

/** Writes an instant as the current API does: microseconds and `+00:00` (service specification, section 2.1). */
export function formatCreatedAt(instant: Date): string {
  return instant.toISOString().replace('Z', '000+00:00');
}
