import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { repositorySchema } from '../../lib/api/schemas.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { replaceFile } from '../../lib/disk/durable.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';

/** Name of the index file in the service's directory. */
const INDEX_NAME = 'repositories.json';

const ROW = z.object({
  ...repositorySchema.shape,
  url: z.string().nullable().default(null),
  created_at: z.iso.datetime({ offset: true }),
  /** The address or path from which an external repository is fetched; null for a drag-and-drop repository. */
  source: z.string().nullable().catch(null),
  /** False until an external repository has been fetched for the first time. */
  cloned: z.boolean().catch(true),
});

/** A repository in the index. */
export type RegisteredRepository = Readonly<z.infer<typeof ROW>>;

/**
 * Reads the index; null for one that does not exist yet.
 * @throws MirrorError `directory.unusable` when it cannot be read
 */
async function readIndex(path: string): Promise<RegisteredRepository[] | null> {
  try {
    const text = await unlessMissing(readFile(path, 'utf8'));
    if (text === null) return null;
    const rows = z.array(ROW).safeParse(JSON.parse(text));
    if (!rows.success) throw new Error('it is not a list of repositories');
    return rows.data;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `the repository index ${path} cannot be read: ${why}`, {
      cause: error,
    });
  }
}

/**
 * Refuses to start an empty index if repositories exist: a mirror would consider all of them deleted.
 * @throws MirrorError `directory.unusable`
 */
async function refuseLost(directory: string): Promise<void> {
  const shelf = join(directory, 'repositories');
  const names = (await unlessMissing(readdir(shelf))) ?? [];
  const repositories = names.filter((name) => name.endsWith('.git'));
  if (repositories.length === 0) return;
  const count = counted(repositories.length, 'repository', 'repositories');
  throw new MirrorError(
    'directory.unusable',
    `${join(directory, INDEX_NAME)} is missing, but ${shelf} holds ${count}.`,
    {
      hint: `Restore ${INDEX_NAME} from the backup that the repositories come from. To start with none, move ${shelf} away first. Nothing was changed.`,
    },
  );
}

/** The list of repositories, in memory and on disk. */
export class RepositoryIndex {
  private readonly directory: string;
  private readonly turns = new Places(1);
  private rows: readonly RegisteredRepository[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  /**
   * Opens the index in a directory. A directory without repositories gets an empty one, so that a missing index later means that it was lost.
   * @throws MirrorError `directory.unusable` when it cannot be read, or is missing where there are repositories
   */
  static async open(directory: string): Promise<RepositoryIndex> {
    const index = new RepositoryIndex(directory);
    const rows = await readIndex(join(directory, INDEX_NAME));
    if (rows === null) {
      await refuseLost(directory);
      await index.change(() => []);
    } else index.rows = rows;
    return index;
  }

  list(): readonly RegisteredRepository[] {
    return this.rows;
  }

  find(id: string): RegisteredRepository | undefined {
    return this.rows.find((row) => row.id === id);
  }

  /** Resolves once the change is durable and visible. */
  add(repository: RegisteredRepository): Promise<void> {
    return this.change((rows) => [...rows, repository]);
  }

  /** Records that an external repository has been fetched. */
  markCloned(id: string): Promise<void> {
    return this.change((rows) => rows.map((row) => (row.id === id ? { ...row, cloned: true } : row)));
  }

  private change(
    make: (rows: readonly RegisteredRepository[]) => readonly RegisteredRepository[],
  ): Promise<void> {
    return this.turns.run(async () => {
      const next = make(this.rows);
      const text = `${JSON.stringify(next, null, 2)}\n`;
      await replaceFile(join(this.directory, INDEX_NAME), text, this.directory);
      this.rows = next;
    });
  }
}

/** Writes an instant as the current API does: microseconds and `+00:00` (service specification, section 2.1). */
export function formatCreatedAt(instant: Date): string {
  return instant.toISOString().replace('Z', '000+00:00');
}
