import { readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { Places } from '../../lib/concurrency/places.ts';
import { repositorySchema } from '../../lib/api/schemas.ts';
import { syncDirectory, writeNewFile } from '../../lib/disk/durable.ts';
import { systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import type { Repository } from '../http/library.ts';

/** A repository as the registry keeps it. */
export interface RegisteredRepository extends Repository {
  readonly created_at: string;
  /** The address or path from which an external repository is fetched; null for a drag-and-drop repository. */
  readonly source: string | null;
  /** False until an external repository has been fetched for the first time. */
  readonly cloned: boolean;
  /** Whether it had been fetched, and is to be cloned again because what is here cannot be read; not `cloned` then. */
  readonly damaged?: true;
}

/** Name of the index file in the registry's directory. */
const INDEX_NAME = 'repositories.json';

/** Ends the name of an index that is being written. */
const TEMPORARY_ENDING = '.tmp';

function readRow(row: unknown): RegisteredRepository {
  const parsed = repositorySchema.safeParse(row);
  if (!parsed.success || typeof parsed.data.created_at !== 'string')
    throw new Error('a row is not a repository');
  const { id, name, full_name, url, created_at } = parsed.data;
  const source = parsed.data['source'];
  return {
    id,
    name,
    full_name,
    url: url ?? null,
    created_at,
    source: typeof source === 'string' ? source : null,
    cloned: parsed.data['cloned'] !== false,
    ...(parsed.data['damaged'] === true ? { damaged: true } : {}),
  };
}

/**
 * Reads the index of a registry; null for one that does not exist yet.
 * @throws MirrorError `directory.unusable` when it cannot be read
 */
async function readIndex(directory: string): Promise<RegisteredRepository[] | null> {
  const path = join(directory, INDEX_NAME);
  try {
    const rows: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (!Array.isArray(rows)) throw new Error('it is not a list');
    return rows.map(readRow);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null;
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `the repository index ${path} cannot be read: ${why}`, {
      cause: error,
    });
  }
}

/**
 * Refuses to begin anew beside repositories: whoever lists them would take all of them for gone.
 * @throws MirrorError `directory.unusable`
 */
async function refuseLost(directory: string): Promise<void> {
  const shelf = join(directory, 'repositories');
  const names = (await unlessMissing(readdir(shelf))) ?? [];
  const repositories = names.filter((name) => name.endsWith('.git'));
  if (repositories.length === 0) return;
  const path = join(directory, INDEX_NAME);
  const count = counted(repositories.length, 'repository', 'repositories');
  throw new MirrorError('directory.unusable', `${path} is missing, but ${shelf} holds ${count}.`, {
    hint: `Restore ${INDEX_NAME} from the backup that the repositories come from. To begin anew, move ${shelf} away first. Nothing was changed.`,
  });
}

/** Removes what a crash left of an index that was being written. */
async function sweep(directory: string): Promise<void> {
  const parts = (await readdir(directory)).filter(
    (name) => name.startsWith(`${INDEX_NAME}.`) && name.endsWith(TEMPORARY_ENDING),
  );
  await Promise.all(parts.map((name) => rm(join(directory, name), { force: true })));
}

/** The rows of an index, in memory and on disk. */
export class RegistryIndex {
  private readonly directory: string;
  private readonly turns = new Places(1);
  private rows: readonly RegisteredRepository[];

  private constructor(directory: string, rows: readonly RegisteredRepository[]) {
    this.directory = directory;
    this.rows = rows;
  }

  /**
   * Opens the index of a registry. A directory without repositories gets an empty one, so that one that is missing later was lost.
   * @throws MirrorError `directory.unusable` when it cannot be read, or is missing where there are repositories
   */
  static async open(directory: string): Promise<RegistryIndex> {
    const rows = await readIndex(directory);
    if (rows === null) {
      await refuseLost(directory);
      await writeIndex(directory, []);
    }
    await sweep(directory);
    return new RegistryIndex(directory, rows ?? []);
  }

  list(): readonly RegisteredRepository[] {
    return this.rows;
  }

  find(id: string): RegisteredRepository | undefined {
    return this.rows.find((row) => row.id === id);
  }

  /** Known to everybody once this has settled, and after a power cut. */
  add(repository: RegisteredRepository): Promise<void> {
    return this.change((rows) => [...rows, repository]);
  }

  /** Remembers that an external repository has been fetched. */
  markCloned(id: string): Promise<void> {
    return this.change((rows) => rows.map((row) => (row.id === id ? asCloned(row) : row)));
  }

  /** Remembers that an external repository has to be cloned again. */
  markDamaged(id: string): Promise<void> {
    return this.change((rows) =>
      rows.map((row) => (row.id === id ? { ...row, cloned: false, damaged: true } : row)),
    );
  }

  private change(
    make: (rows: readonly RegisteredRepository[]) => readonly RegisteredRepository[],
  ): Promise<void> {
    return this.turns.run(async () => {
      const next = make(this.rows);
      await writeIndex(this.directory, next);
      this.rows = next;
    });
  }
}

function asCloned({ damaged: _, ...repository }: RegisteredRepository): RegisteredRepository {
  return { ...repository, cloned: true };
}

/** Replaces the index as one step that a power cut leaves either done or not done. */
async function writeIndex(directory: string, repositories: readonly RegisteredRepository[]): Promise<void> {
  const path = join(directory, INDEX_NAME);
  const temporary = `${path}.${crypto.randomUUID()}${TEMPORARY_ENDING}`;
  await writeNewFile(temporary, `${JSON.stringify(repositories, null, 2)}\n`);
  try {
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(directory);
}

/** Writes an instant as the current API does: microseconds and `+00:00` (service specification, section 2.1). */
export function formatCreatedAt(instant: Date): string {
  return instant.toISOString().replace('Z', '000+00:00');
}
