import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { Places } from '../../lib/concurrency/places.ts';
import { syncDirectory } from '../../lib/disk/durable.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Address, readAddress, type Sources, checkRepositoryName } from './addresses.ts';
import { initialise, examine } from './bare.ts';
import { createCredentialStore, type Credentials, type CredentialStore } from './credentials.ts';
import { createFetches, type Fetches, type FetchEvent, type FetchWays } from './fetches.ts';
import { createForwardProxy, type ForwardProxy, type ForwardProxyOptions } from './forward-proxy.ts';
import { Git } from './git.ts';
import {
  formatCreatedAt,
  openIndex,
  type RegisteredRepository,
  type RegistryIndex,
} from './registry-index.ts';
import { INCOMING_PREFIX, type OpeningEvent, prepareShelf } from './opening.ts';
import type { Remote } from './reach.ts';
import { RemoteError } from './remote-errors.ts';
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
  /** How connections are made; to any address if left out. */
  readonly network?: ForwardProxyOptions;
  /** Most that the objects of an external repository may take on disk, in bytes; null or left out for no bound. */
  readonly maxRepositoryBytes?: number | null;
  readonly onEvent?: (event: FetchEvent) => void;
  /** Told of what is wrong in the directory, while it is opened. */
  readonly onOpening?: (event: OpeningEvent) => void;
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
  readonly problemOf: Fetches['problemOf'];
  /** To be told of an external repository that could not be read. */
  readonly doubt: Fetches['doubt'];
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
   * @throws TakenError when it is connected already, RemoteError when it cannot be read, CrowdedError when too many are being
   *   connected
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

/** How long a repository may take to say that it is there, in milliseconds: somebody waits for it. */
const ANNOUNCEMENT_LIMIT_MS = 20_000;

/** How many are asked at once whether they are there, and how many wait for that; more are refused. */
const QUESTIONS_AT_ONCE = 8;
const QUESTIONS_WAITING = 16;

/**
 * Opens the registry in a directory, which is made when it does not exist. One process at a time may have a registry open.
 * Repositories whose first clone was broken off are cloned again, and so are external ones that are gone.
 * @throws MirrorError `directory.unusable` when the index cannot be read, or is gone
 */
export async function openRegistry(directory: string, options: RegistryOptions = {}): Promise<Registry> {
  const root = resolve(directory);
  const shelf = join(root, 'repositories');
  const made = await mkdir(shelf, { recursive: true });
  if (made !== undefined) await syncDirectory(dirname(made));
  const index = await openIndex(root);
  const credentials = createCredentialStore(join(root, 'credentials'));
  await credentials.keepOnly(new Set(index.list().map(({ id }) => id)));
  const gitDirectory = (id: string): string => join(shelf, `${id}.git`);
  await prepareShelf(shelf, index, gitDirectory, options.onOpening ?? (() => {}));
  const proxy = createForwardProxy(options.network ?? { rules: { allow: [], refuse: [] } });
  return createRegistry({ sources: 'https', ...options, shelf, index, credentials, gitDirectory, proxy });
}

interface Parts extends RegistryOptions {
  readonly sources: Sources;
  readonly proxy: ForwardProxy;
  readonly shelf: string;
  readonly index: RegistryIndex;
  readonly credentials: CredentialStore;
  readonly gitDirectory: (id: string) => string;
}

function createRegistry(parts: Parts): Registry {
  const { index, credentials, gitDirectory, sources, proxy, onEvent = () => {} } = parts;
  const git = new Git();
  // Addresses that do not answer must not keep others from their turn.
  const questions = new Git();
  const questionPlaces = new Places(QUESTIONS_AT_ONCE, QUESTIONS_WAITING);
  const add = createAdding(parts);
  const { onFetch, onFetched } = createAnnouncer(onEvent);
  const remoteFor = createRemotes(parts);
  const fetches = createFetches(index, onFetch, createWays(parts, git, remoteFor));
  return {
    sources,
    list: index.list,
    gitDirectory,
    activityOf: fetches.activityOf,
    problemOf: fetches.problemOf,
    doubt: fetches.doubt,
    async create(name, createdAt = new Date()) {
      checkRepositoryName(name);
      const row = { id: crypto.randomUUID(), name, full_name: name, url: null, source: null };
      return add({ ...row, created_at: formatCreatedAt(createdAt), cloned: true }, (path) =>
        initialise(git, path),
      );
    },
    async connect({ url, source = url, createdAt = new Date() }) {
      const reading = readAddress(url, sources);
      if (reading.kind === 'refused') throw new MirrorError('usage.invalid', reading.message);
      const row = rowOf({ url, address: reading.address, source, createdAt, cloned: true });
      return add(row, async (path) => {
        await initialise(git, path);
        await pull(git, remoteOf(row, parts, null), path).catch(refuseConnection);
      });
    },
    async announce({ url, address, credentials: given }) {
      const row = rowOf({ url, address, source: url, createdAt: new Date(), cloned: false });
      const added = await add(row, async (path) => {
        if (given !== null) await credentials.write(row.id, given);
        const remote = await remoteFor(row);
        await questionPlaces.run(() => askRemote(questions, remote, ANNOUNCEMENT_LIMIT_MS));
        await initialise(git, path);
      }).catch(async (error: unknown) => {
        await credentials.remove(row.id);
        if (error instanceof RemoteError && error.inside !== null)
          onEvent({ kind: 'unconnected', repository: row, error });
        throw error;
      });
      fetches.soon(added.id);
      return added;
    },
    refresh: fetches.fetch,
    onFetched,
    fetchSoon: fetches.soon,
    fetchWhenDue: fetches.whenDue,
    async close() {
      const ended = fetches.close();
      await Promise.all([git.stop(), questions.stop()]);
      await Promise.all([ended, proxy.close()]);
    },
  };
}

/** Passes events on, and tells listeners of those that brought something. */
function createAnnouncer(onEvent: (event: FetchEvent) => void): {
  readonly onFetch: (event: FetchEvent) => void;
  readonly onFetched: Registry['onFetched'];
} {
  const listeners: Array<(repositoryId: string) => void> = [];
  return {
    onFetch(event) {
      onEvent(event);
      if (event.kind !== 'cloned' && event.kind !== 'fetched') return;
      for (const listener of listeners) listener(event.repository.id);
    },
    onFetched: (listener) => void listeners.push(listener),
  };
}

type RemoteFor = (row: RegisteredRepository) => Promise<Remote>;

function createRemotes(parts: Parts): RemoteFor {
  return async (row) => remoteOf(row, parts, await parts.credentials.find(row.id));
}

function createWays(
  { shelf, gitDirectory, maxRepositoryBytes: maxBytes = null }: Parts,
  git: Git,
  remoteFor: RemoteFor,
): FetchWays {
  return {
    pull: async (row, options) =>
      pull(git, await remoteFor(row), gitDirectory(row.id), { ...options, maxBytes }),
    clone: (row, options) =>
      makeAside(shelf, row.id, gitDirectory(row.id), async (path) => {
        const remote = await remoteFor(row);
        await initialise(git, path);
        return pull(git, remote, path, { ...options, maxBytes });
      }),
    examine: (row) => examine(git, gitDirectory(row.id)),
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

type Making = (gitDirectory: string) => Promise<unknown>;

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

/** Makes a bare repository under another name and moves it to its place when it is whole; what is there goes. */
async function makeAside<Result>(
  shelf: string,
  id: string,
  gitDirectory: string,
  make: (gitDirectory: string) => Promise<Result>,
): Promise<Result> {
  const incoming = join(shelf, `${INCOMING_PREFIX}${id}`);
  const outgoing = join(shelf, `${INCOMING_PREFIX}${id}-before`);
  try {
    const result = await make(incoming);
    await rename(gitDirectory, outgoing).catch((error: unknown) => {
      if (systemCode(error) !== 'ENOENT') throw error;
    });
    await rename(incoming, gitDirectory);
    await syncDirectory(shelf);
    return result;
  } finally {
    await Promise.all([incoming, outgoing].map((path) => rm(path, { recursive: true, force: true })));
  }
}
