import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { initialise, keepExact, mirror, update } from './bare.ts';
import { createGit, type Git } from './git.ts';
import { createLimit, type Limit } from './limit.ts';
import { checkRepositoryName, formatCreatedAt, namesOfAddress } from './names.ts';
import { type RegisteredRepository, readIndex, syncDirectory, writeIndex } from './registry-index.ts';

/** An external repository to connect. */
interface ExternalRepository {
  /** The address under which the repository is known, `https://<host>/<path>.git`. */
  readonly url: string;
  /** Where it is fetched from, an address or an absolute path, when that is not `url`. */
  readonly source?: string;
  /** When it was connected, when that is not now. */
  readonly createdAt?: Date;
}

/** The repositories of the service: a directory with one bare Git repository each, and an index. */
export interface Registry {
  /** All repositories in the order they were created. */
  readonly list: () => readonly RegisteredRepository[];
  /** Absolute path of a repository's bare Git repository. */
  readonly gitDirectory: (id: string) => string;
  /**
   * Creates an empty drag-and-drop repository.
   * @throws MirrorError `usage.invalid` for a name that is taken or unusable
   */
  readonly create: (name: string, createdAt?: Date) => Promise<RegisteredRepository>;
  /**
   * Connects an external Git repository by making a mirror clone of it.
   * @throws MirrorError `usage.invalid` when it is connected already, has no proper address or cannot be cloned
   */
  readonly connect: (external: ExternalRepository) => Promise<RegisteredRepository>;
  /**
   * Fetches what changed in an external repository; does nothing for a drag-and-drop repository.
   * @throws MirrorError `target.unknown` for an unknown id, `service.failed` when it cannot be fetched
   */
  readonly refresh: (id: string) => Promise<void>;
  /** Ends clones and fetches under way; the registry cannot be changed afterwards. */
  readonly close: () => Promise<void>;
}

/** Begins the name of a bare repository that is not in the index yet; a crash may leave one behind. */
const INCOMING_PREFIX = 'incoming-';

/**
 * Opens the registry in a directory, which is made when it does not exist. One process at a time may change a registry.
 * @throws MirrorError `directory.unusable` when the index cannot be read
 */
export async function openRegistry(directory: string): Promise<Registry> {
  const root = resolve(directory);
  const shelf = join(root, 'repositories');
  const git = createGit();
  const inTurn = createLimit(1);
  const incomingNames = new Set<string>();
  const refresh = createRefresh(git);
  const gitDirectory = (id: string): string => join(shelf, `${id}.git`);

  await mkdir(shelf, { recursive: true });
  let repositories: readonly RegisteredRepository[] = await readIndex(root);
  await removeLeftovers(shelf);
  await Promise.all(repositories.map(({ id }) => keepExact(gitDirectory(id))));

  /** Takes a name for as long as its repository is being made: a clone may take hours. */
  function reserve(fullName: string): void {
    if (incomingNames.has(fullName) || repositories.some(({ full_name }) => full_name === fullName)) {
      throw new MirrorError('usage.invalid', `a repository ${fullName} exists already`);
    }
    incomingNames.add(fullName);
  }

  async function add(
    repository: Omit<RegisteredRepository, 'id'>,
    make: (gitDirectory: string) => Promise<void>,
  ): Promise<RegisteredRepository> {
    const added = { id: crypto.randomUUID(), ...repository };
    reserve(added.full_name);
    try {
      await makeAside(shelf, added.id, gitDirectory(added.id), make);
      // Only now it becomes known.
      await inTurn(async () => {
        await writeIndex(root, [...repositories, added]);
        repositories = [...repositories, added];
      });
      return added;
    } finally {
      incomingNames.delete(added.full_name);
    }
  }

  return {
    list: () => repositories,
    gitDirectory,
    async create(name, createdAt = new Date()) {
      checkRepositoryName(name);
      const created_at = formatCreatedAt(createdAt);
      return add({ name, full_name: name, url: null, created_at, source: null }, (path) =>
        initialise(git, path),
      );
    },
    async connect({ url, source = url, createdAt = new Date() }) {
      const { name, fullName } = namesOfAddress(url);
      const created_at = formatCreatedAt(createdAt);
      return add({ name, full_name: fullName, url, created_at, source }, (path) => mirror(git, source, path));
    },
    async refresh(id) {
      const source = repositories.find((repository) => repository.id === id)?.source;
      if (source === undefined) throw new MirrorError('target.unknown', `no repository has the id ${id}`);
      if (source !== null) await refresh(source, gitDirectory(id));
    },
    close: () => git.stop(),
  };
}

/** Two fetches at once would get into each other's way at the locks of the branches, so they take turns. */
function createRefresh(git: Git): (source: string, gitDirectory: string) => Promise<void> {
  const turns = new Map<string, Limit>();
  return (source, gitDirectory) => {
    const inTurn = turns.get(gitDirectory) ?? createLimit(1);
    turns.set(gitDirectory, inTurn);
    return inTurn(() => update(git, source, gitDirectory));
  };
}

/** Makes a bare repository under another name and moves it to its place when it is whole. */
async function makeAside(
  shelf: string,
  id: string,
  gitDirectory: string,
  make: (gitDirectory: string) => Promise<void>,
): Promise<void> {
  const incoming = join(shelf, `${INCOMING_PREFIX}${id}`);
  try {
    await make(incoming);
    await rename(incoming, gitDirectory);
    await syncDirectory(shelf);
  } catch (error) {
    await rm(incoming, { recursive: true, force: true });
    throw error;
  }
}

async function removeLeftovers(shelf: string): Promise<void> {
  const leftovers = (await readdir(shelf)).filter((name) => name.startsWith(INCOMING_PREFIX));
  await Promise.all(leftovers.map((name) => rm(join(shelf, name), { recursive: true, force: true })));
}
