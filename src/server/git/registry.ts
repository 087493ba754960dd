import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { syncDirectory } from '../../lib/disk/durable.ts';
import { systemCode } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Address, readAddress, type Sources, checkRepositoryName } from './addresses.ts';
import { type Credentials, CredentialStore } from '../external/credentials.ts';
import { type FetchEvent, Fetches } from '../external/fetches.ts';
import { askRemote, pull, type PullOptions, remoteOf } from '../external/remote.ts';
import { initialise } from './bare.ts';
import { Git } from './git.ts';
import { formatCreatedAt, type RegisteredRepository, RegistryIndex } from './registry-index.ts';
import { gitDirectoryIn, INCOMING_PREFIX, type OpeningEvent, prepareShelf } from './opening.ts';

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
  /** `url`, read. */
  readonly address: Address;
  readonly credentials: Credentials | null;
}

export interface RegistryOptions {
  /** Which addresses may be connected and fetched; `https` if left out. */
  readonly sources?: Sources;
  /** Most that the objects of an external repository may take on disk, in bytes; null or left out for no bound. */
  readonly maxRepositoryBytes?: number | null;
  readonly onEvent?: (event: FetchEvent) => void;
  /** Told of what is wrong in the directory, while it is opened. */
  readonly onOpening?: (event: OpeningEvent) => void;
}

/** A name that is taken. */
export class TakenError extends MirrorError {}

/** How long a repository may take to say that it is there, in milliseconds: somebody waits for it. */
const ANNOUNCEMENT_LIMIT_MS = 20_000;

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
  const index = await RegistryIndex.open(root);
  const credentials = new CredentialStore(join(root, 'credentials'));
  await credentials.keepOnly(new Set(index.list().map(({ id }) => id)));
  await prepareShelf(shelf, index, options.onOpening ?? (() => {}));
  return new Registry(shelf, index, credentials, options);
}

/** The repositories of the service: a directory with one bare Git repository each, and an index. */
export class Registry {
  /** Which addresses may be connected. */
  readonly sources: Sources;
  /** All repositories in the order they were created, also those whose first clone is under way. */
  readonly list: () => readonly RegisteredRepository[];
  readonly fetches: Fetches;
  private readonly shelf: string;
  private readonly index: RegistryIndex;
  private readonly credentials: CredentialStore;
  private readonly maxBytes: number | null;
  private readonly listeners: Array<(repositoryId: string) => void> = [];
  private readonly git = new Git();
  private readonly incomingNames = new Set<string>();

  constructor(shelf: string, index: RegistryIndex, credentials: CredentialStore, options: RegistryOptions) {
    this.shelf = shelf;
    this.index = index;
    this.credentials = credentials;
    this.list = () => index.list();
    this.sources = options.sources ?? 'https';
    this.maxBytes = options.maxRepositoryBytes ?? null;
    const onFetch = (event: FetchEvent): void => {
      options.onEvent?.(event);
      if (event.kind !== 'cloned' && event.kind !== 'fetched') return;
      for (const listener of this.listeners) listener(event.repository.id);
    };
    this.fetches = new Fetches(index, onFetch, {
      pull: (row, onChange) => this.pull(row, this.gitDirectory(row.id), { onChange }),
      clone: (row) =>
        this.makeAside(row.id, async (path) => {
          await initialise(this.git, path);
          return this.pull(row, path, {});
        }),
    });
  }

  /** Absolute path of a repository's bare Git repository, which is there for each in the list. */
  readonly gitDirectory = (id: string): string => gitDirectoryIn(this.shelf, id);

  /**
   * Creates an empty drag-and-drop repository.
   * @throws MirrorError `usage.invalid` for an unusable name; TakenError
   */
  create(name: string, createdAt = new Date()): Promise<RegisteredRepository> {
    checkRepositoryName(name);
    const row = { id: crypto.randomUUID(), name, full_name: name, url: null, source: null, cloned: true };
    return this.add({ ...row, created_at: formatCreatedAt(createdAt) }, (path) => initialise(this.git, path));
  }

  /**
   * Connects an external Git repository and waits until it is fetched.
   * @throws MirrorError `usage.invalid` when it is connected already, has no proper address or cannot be fetched
   */
  connect({ url, source = url, createdAt = new Date() }: ExternalRepository): Promise<RegisteredRepository> {
    const reading = readAddress(url, this.sources);
    if (reading.kind === 'refused') throw new MirrorError('usage.invalid', reading.message);
    const row = rowOf({ url, address: reading.address, source, createdAt, cloned: true });
    return this.add(row, async (path) => {
      await initialise(this.git, path);
      await pull(this.git, remoteOf(row, this.sources, null), path).catch(refuseConnection);
    });
  }

  /**
   * Connects an external Git repository that can be read, and fetches it afterwards.
   * @throws TakenError when it is connected already, RemoteError when it cannot be read
   */
  async announce({ url, address, credentials }: AnnouncedRepository): Promise<RegisteredRepository> {
    const row = rowOf({ url, address, source: url, createdAt: new Date(), cloned: false });
    try {
      await this.add(row, async (path) => {
        if (credentials !== null) await this.credentials.write(row.id, credentials);
        const remote = remoteOf(row, this.sources, await this.credentials.find(row.id));
        await askRemote(this.git, remote, ANNOUNCEMENT_LIMIT_MS);
        await initialise(this.git, path);
      });
    } catch (error) {
      await this.credentials.remove(row.id);
      throw error;
    }
    this.fetches.soon(row.id);
    return row;
  }

  /** Adds a listener, which receives the id of every repository to which a fetch brought something; it must not throw. */
  onFetched(listener: (repositoryId: string) => void): void {
    this.listeners.push(listener);
  }

  /** Ends clones and fetches under way; the registry cannot be changed afterwards. */
  async close(): Promise<void> {
    const ended = this.fetches.close();
    await this.git.stop();
    await ended;
  }

  private async pull(row: RegisteredRepository, path: string, options: PullOptions): Promise<boolean> {
    const remote = remoteOf(row, this.sources, await this.credentials.find(row.id));
    return pull(this.git, remote, path, { ...options, maxBytes: this.maxBytes });
  }

  /** Adds a repository, one of a name at a time. */
  private async add(
    repository: RegisteredRepository,
    make: (gitDirectory: string) => Promise<unknown>,
  ): Promise<RegisteredRepository> {
    const { id, full_name: fullName } = repository;
    // The name is taken for as long as its repository is being made: that may take hours.
    if (this.incomingNames.has(fullName) || this.list().some(({ full_name }) => full_name === fullName)) {
      throw new TakenError('usage.invalid', `a repository ${fullName} exists already`);
    }
    this.incomingNames.add(fullName);
    try {
      await this.makeAside(id, make);
      // Only now it becomes known.
      await this.index.add(repository);
      return repository;
    } finally {
      this.incomingNames.delete(fullName);
    }
  }

  /** Makes a bare repository under another name and moves it to its place when it is whole; what is there goes. */
  private async makeAside<Result>(
    id: string,
    make: (gitDirectory: string) => Promise<Result>,
  ): Promise<Result> {
    const incoming = join(this.shelf, `${INCOMING_PREFIX}${id}`);
    const outgoing = join(this.shelf, `${INCOMING_PREFIX}${id}-before`);
    try {
      const result = await make(incoming);
      await rename(this.gitDirectory(id), outgoing).catch((error: unknown) => {
        if (systemCode(error) !== 'ENOENT') throw error;
      });
      await rename(incoming, this.gitDirectory(id));
      await syncDirectory(this.shelf);
      return result;
    } finally {
      await Promise.all([incoming, outgoing].map((path) => rm(path, { recursive: true, force: true })));
    }
  }
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
