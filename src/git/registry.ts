import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { MirrorError } from '../model/errors.ts';
import { type Address, readAddress, type Sources } from './addresses.ts';
import { clearAway, initialise, keepExact } from './bare.ts';
import { createCredentialStore, type Credentials, type CredentialStore } from './credentials.ts';
import { createFetches, type Fetches, type FetchEvent } from './fetches.ts';
import { createGit } from './git.ts';
import { checkRepositoryName, formatCreatedAt } from './names.ts';
import { openIndex, type RegisteredRepository, type RegistryIndex, syncDirectory } from './registry-index.ts';
import { askRemote, pull, remoteOf } from './remote.ts';

/** An external repository to connect. */
interface ExternalRepository {
  /** The address under which the repository is known, `https://<host>/<path>.git`. */
  readonly url: string;
  /** Where it is fetched from, an address or an absolute path, when that is not `url`. */
  readonly source?: string;
  /** When it was connected, when that is not now. */
  readonly createdAt?: Date;
}

/** An external repository that is registered before it is fetched. */
interface AnnouncedRepository {
  /** The address as submitted. */
  readonly url: string;
  /** What `url` says. */
  readonly address: Address;
  readonly credentials: Credentials | null;
}

/** What a registry is opened with. */
export interface RegistryOptions {
  /** Which addresses may be connected and fetched; `https` if left out. */
  readonly sources?: Sources;
  readonly onEvent?: (event: FetchEvent) => void;
}

/** A name that is taken. */
export class TakenError extends MirrorError {}

/** The repositories of the service: a directory with one bare Git repository each, and an index. */
export interface Registry {
  /** Which addresses may be connected. */
  readonly sources: Sources;
  /** All repositories in the order they were created, also those whose first clone is under way. */
  readonly list: () => readonly RegisteredRepository[];
  /** Absolute path of a repository's bare Git repository, which is there for each in the list. */
  readonly gitDirectory: (id: string) => string;
  readonly activityOf: Fetches['activityOf'];
  /**
   * Creates an empty drag-and-drop repository.
   * @throws MirrorError `usage.invalid` for an unusable name; TakenError
   */
  readonly create: (name: string, createdAt?: Date) => Promise<RegisteredRepository>;
  /**
   * Connects an external Git repository and waits until it is fetched.
   * @throws MirrorError `usage.invalid` when it is connected already, has no proper address or cannot be fetched
   */
  readonly connect: (external: ExternalRepository) => Promise<RegisteredRepository>;
  /**
   * Connects an external Git repository that can be read, and fetches it afterwards.
   * @throws TakenError when it is connected already, RemoteError when it cannot be read
   */
  readonly announce: (external: AnnouncedRepository) => Promise<RegisteredRepository>;
  /**
   * Fetches what changed in an external repository; does nothing for a drag-and-drop repository.
   * @throws MirrorError `target.unknown` for an unknown id, RemoteError when it cannot be fetched
   */
  readonly refresh: (id: string) => Promise<void>;
  /** Has somebody told of every repository to which a fetch brought something, by its id; who is told must not throw. */
  readonly onFetched: (listener: (repositoryId: string) => void) => void;
  readonly fetchSoon: Fetches['soon'];
  readonly fetchWhenDue: Fetches['whenDue'];
  /** Ends clones and fetches under way; the registry cannot be changed afterwards. */
  readonly close: () => Promise<void>;
}

/** Begins the name of a bare repository that is not in the index yet; a crash may leave one behind. */
const INCOMING_PREFIX = 'incoming-';

/** How long a repository may take to say that it is there, in milliseconds: somebody waits for it. */
const ANNOUNCEMENT_LIMIT_MS = 20_000;

/**
 * Opens the registry in a directory, which is made when it does not exist. One process at a time may have a registry open.
 * Repositories whose first clone was broken off are cloned again.
 * @throws MirrorError `directory.unusable` when the index cannot be read
 */
export async function openRegistry(directory: string, options: RegistryOptions = {}): Promise<Registry> {
  const root = resolve(directory);
  const shelf = join(root, 'repositories');
  await mkdir(shelf, { recursive: true });
  const index = await openIndex(root);
  const credentials = createCredentialStore(join(root, 'credentials'));
  await removeLeftovers(shelf);
  await credentials.keepOnly(new Set(index.list().map(({ id }) => id)));
  const gitDirectory = (id: string): string => join(shelf, `${id}.git`);
  await Promise.all(
    index.list().map(async ({ id }) => {
      await keepExact(gitDirectory(id));
      await clearAway(gitDirectory(id));
    }),
  );
  return createRegistry({ shelf, index, credentials, gitDirectory, ...options });
}

interface Parts extends RegistryOptions {
  readonly shelf: string;
  readonly index: RegistryIndex;
  readonly credentials: CredentialStore;
  readonly gitDirectory: (id: string) => string;
}

function createRegistry(parts: Parts): Registry {
  const { index, credentials, gitDirectory, sources = 'https', onEvent = () => {} } = parts;
  const git = createGit();
  // Addresses that do not answer must not keep others from their turn.
  const questions = createGit();
  const add = createAdding(parts);
  const listeners: Array<(repositoryId: string) => void> = [];
  const onFetch = (event: FetchEvent): void => {
    onEvent(event);
    if (event.kind !== 'cloned' && event.kind !== 'fetched') return;
    for (const listener of listeners) listener(event.repository.id);
  };
  const fetches = createFetches(index, onFetch, async (repository, onChange) => {
    const remote = remoteOf(repository, sources, await credentials.find(repository.id));
    return pull(git, remote, gitDirectory(repository.id), onChange);
  });
  return {
    sources,
    list: index.list,
    gitDirectory,
    activityOf: fetches.activityOf,
    async create(name, createdAt = new Date()) {
      checkRepositoryName(name);
      const created_at = formatCreatedAt(createdAt);
      const row = { id: crypto.randomUUID(), name, full_name: name, url: null, created_at };
      return add({ ...row, source: null, cloned: true }, (path) => initialise(git, path));
    },
    async connect({ url, source = url, createdAt = new Date() }) {
      const reading = readAddress(url, sources);
      if (reading.kind === 'refused') throw new MirrorError('usage.invalid', reading.message);
      const row = rowOf({ url, address: reading.address, source, createdAt, cloned: true });
      return add(row, async (path) => {
        await initialise(git, path);
        await pull(git, remoteOf(row, sources, null), path).catch(refuseConnection);
      });
    },
    async announce({ url, address, credentials: given }) {
      const row = rowOf({ url, address, source: url, createdAt: new Date(), cloned: false });
      const added = await add(row, async (path) => {
        if (given !== null) await credentials.write(row.id, given);
        const remote = remoteOf(row, sources, await credentials.find(row.id));
        await askRemote(questions, remote, ANNOUNCEMENT_LIMIT_MS);
        await initialise(git, path);
      }).catch(async (error: unknown) => {
        await credentials.remove(row.id);
        throw error;
      });
      fetches.soon(added.id);
      return added;
    },
    refresh: fetches.fetch,
    onFetched: (listener) => void listeners.push(listener),
    fetchSoon: fetches.soon,
    fetchWhenDue: fetches.whenDue,
    async close() {
      const ended = fetches.close();
      await Promise.all([git.stop(), questions.stop()]);
      await ended;
    },
  };
}

function rowOf(external: {
  readonly url: string;
  readonly address: Address;
  readonly source: string;
  readonly createdAt: Date;
  readonly cloned: boolean;
}): RegisteredRepository {
  const { url, address, source, createdAt, cloned } = external;
  const { name, fullName } = address;
  const created_at = formatCreatedAt(createdAt);
  return { id: crypto.randomUUID(), name, full_name: fullName, url, created_at, source, cloned };
}

function refuseConnection(error: unknown): never {
  const why = error instanceof Error ? error.message : String(error);
  throw new MirrorError('usage.invalid', `the external repository cannot be cloned: ${why}`, {
    cause: error,
    hint: 'Check the address and that this machine may read the repository.',
  });
}

type Making = (gitDirectory: string) => Promise<void>;

/** Makes the function that adds repositories, one of a name at a time. */
function createAdding({ shelf, index, gitDirectory }: Pick<Parts, 'shelf' | 'index' | 'gitDirectory'>) {
  const incomingNames = new Set<string>();
  return async (repository: RegisteredRepository, make: Making): Promise<RegisteredRepository> => {
    const { id, full_name: fullName } = repository;
    // The name is taken for as long as its repository is being made: that may take hours.
    if (incomingNames.has(fullName) || index.list().some(({ full_name }) => full_name === fullName)) {
      throw new TakenError('usage.invalid', `a repository ${fullName} exists already`);
    }
    incomingNames.add(fullName);
    try {
      await makeAside(shelf, id, gitDirectory(id), make);
      // Only now it becomes known.
      await index.add(repository);
      return repository;
    } finally {
      incomingNames.delete(fullName);
    }
  };
}

/** Makes a bare repository under another name and moves it to its place when it is whole. */
async function makeAside(shelf: string, id: string, gitDirectory: string, make: Making): Promise<void> {
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
