import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { syncDirectory } from '../../lib/disk/durable.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { invalid, RequestError } from '../../lib/http/request.ts';
import { withHint } from '../../lib/text/humanize.ts';
import { type Credentials, CredentialStore } from '../external/credentials.ts';
import { RemoteError } from '../external/errors.ts';
import { Fetches } from '../external/fetches.ts';
import { askRemote, pull, remoteOf } from '../external/remote.ts';
import type { ExternalRepository } from '../http/library.ts';
import { checkRepositoryName, readAddress, type Sources } from './addresses.ts';
import { clearAway, initialise, keepExact } from './bare.ts';
import { Git } from './git.ts';
import { settleDefaultBranch } from './refs.ts';
import { formatCreatedAt, type RegisteredRepository, RepositoryIndex } from './repository-index.ts';
import { reasonOf, type Tell } from './tell.ts';

export interface RegistryOptions {
  /** Allowed addresses of external repositories; `https` if omitted. */
  readonly sources?: Sources;
  /** Limit for the objects of an external repository on disk, in bytes; none if null or omitted. */
  readonly maxRepositoryBytes?: number | null;
  /** Receives each fault found while the directory is opened, and the outcomes of fetches. */
  readonly tell?: Tell;
}

/** Timeout for a repository to answer while a client waits, in milliseconds. */
const ANNOUNCEMENT_LIMIT_MS = 20_000;

/** Prefix of a bare repository that is not in the index yet; a crash may leave one behind. */
const INCOMING_PREFIX = 'incoming-';
const REPOSITORY_NAME = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.git$/;

function gitDirectoryIn(shelf: string, id: string): string {
  return join(shelf, `${id}.git`);
}

/**
 * Opens the repositories in a directory, which is made when it does not exist. One process at a time may have them open.
 * External repositories whose first clone was interrupted, or whose folder is gone, are cloned again.
 * @throws MirrorError `directory.unusable` when the index cannot be read, or is gone
 */
export async function openRegistry(directory: string, options: RegistryOptions = {}): Promise<Registry> {
  const root = resolve(directory);
  const shelf = join(root, 'repositories');
  const made = await mkdir(shelf, { recursive: true });
  if (made !== undefined) await syncDirectory(dirname(made));
  const index = await RepositoryIndex.open(root);
  const credentials = new CredentialStore(join(root, 'credentials'));
  await credentials.keepOnly(new Set(index.list().map(({ id }) => id)));
  const { tell = () => {} } = options;
  await clearShelf(shelf, index, tell);
  const git = new Git();
  await Promise.all(index.list().map((repository) => prepare(git, shelf, repository, tell)));
  return new Registry(shelf, index, credentials, options);
}

/** Removes the leftovers of a crash, and reports repositories that are not in the index. */
async function clearShelf(shelf: string, index: RepositoryIndex, tell: Tell): Promise<void> {
  for (const name of await readdir(shelf)) {
    const path = join(shelf, name);
    if (name.startsWith(INCOMING_PREFIX)) await rm(path, { recursive: true, force: true });
    const [, id] = REPOSITORY_NAME.exec(name) ?? [];
    if (id !== undefined && index.find(id) === undefined)
      tell(`${path} belongs to no repository in the list: it is kept, and not served.`, 'warn');
  }
}

/** Makes one repository ready. If it cannot be used, the others are still served. */
async function prepare(git: Git, shelf: string, repository: RegisteredRepository, tell: Tell): Promise<void> {
  const { id, source, full_name: name } = repository;
  const gitDirectory = gitDirectoryIn(shelf, id);
  try {
    await keepExact(gitDirectory);
    await clearAway(gitDirectory);
    // A crash may have happened between a push and this step.
    if (source === null) await settleDefaultBranch(git, gitDirectory);
  } catch (error) {
    const remedy =
      source === null
        ? `Repair repositories/${id}.git, or restore it from the backup, and start this again.`
        : 'It is cloned again if it is gone.';
    tell(`${name} cannot be used: ${reasonOf(error)}. ${remedy}`, 'error');
  }
}

/** The repositories of the service: a directory with one bare Git repository each, and an index. */
export class Registry {
  /** All repositories in the order they were created, also those whose first clone is under way. */
  readonly list: () => readonly RegisteredRepository[];
  readonly fetches: Fetches;
  private readonly sources: Sources;
  private readonly shelf: string;
  private readonly index: RepositoryIndex;
  private readonly credentials: CredentialStore;
  private readonly maxBytes: number | null;
  private readonly git = new Git();
  private readonly incomingNames = new Set<string>();

  constructor(shelf: string, index: RepositoryIndex, credentials: CredentialStore, options: RegistryOptions) {
    this.shelf = shelf;
    this.index = index;
    this.credentials = credentials;
    this.list = () => index.list();
    this.sources = options.sources ?? 'https';
    this.maxBytes = options.maxRepositoryBytes ?? null;
    this.fetches = new Fetches(index, options.tell ?? (() => {}), async (row, onChange) => {
      const gitDirectory = this.gitDirectory(row.id);
      const isMissing = (await unlessMissing(stat(gitDirectory))) === null;
      if (row.cloned && !isMissing) return this.pull(row, gitDirectory, onChange);
      await this.makeAside(row.id, async (path) => {
        await initialise(this.git, path);
        await this.pull(row, path, onChange);
      });
      return true;
    });
  }

  /** Absolute path of a repository's bare Git repository, which exists for each listed one. */
  readonly gitDirectory = (id: string): string => gitDirectoryIn(this.shelf, id);

  /**
   * Creates an empty drag-and-drop repository.
   * @throws RequestError 400 for an unusable name, 409 for one that is taken
   */
  async create(name: string): Promise<RegisteredRepository> {
    checkRepositoryName(name);
    const row = { id: crypto.randomUUID(), name, full_name: name, url: null, source: null, cloned: true };
    const repository = { ...row, created_at: formatCreatedAt(new Date()) };
    await this.add(repository, (path) => initialise(this.git, path));
    return repository;
  }

  /**
   * Connects a readable external Git repository, and fetches it afterwards.
   * @throws RequestError 400 for an address or credentials that cannot be used, 409 for an address that is connected already, 422 where
   *   the repository cannot be read
   */
  async connect(external: ExternalRepository): Promise<RegisteredRepository> {
    const row = this.rowOf(external.url, external.url);
    const credentials = credentialsOf(external);
    if (credentials !== null && readAddress(external.url, this.sources).origin === null)
      throw invalid('username: a repository of this machine takes no user name and password');
    try {
      await this.add(row, async (path) => {
        if (credentials !== null) await this.credentials.write(row.id, credentials);
        const remote = remoteOf(row, this.sources, await this.credentials.find(row.id));
        await askRemote(this.git, remote, ANNOUNCEMENT_LIMIT_MS).catch(refuse);
        await initialise(this.git, path);
      });
    } catch (error) {
      await this.credentials.remove(row.id);
      throw error;
    }
    this.fetches.soon(row.id);
    return row;
  }

  /**
   * Connects a repository of this machine under the address of another one, for the demo, and waits until it is fetched.
   * @param source the path to fetch it from
   * @throws RequestError as {@link Registry.connect}
   */
  async connectSample(url: string, source: string): Promise<RegisteredRepository> {
    const row = { ...this.rowOf(url, source), cloned: true };
    await this.add(row, async (path) => {
      await initialise(this.git, path);
      await this.pull(row, path).catch(refuse);
    });
    return row;
  }

  /**
   * Gives the bare repository of a repository that has been cloned.
   * @returns its absolute path
   * @throws RequestError 503 while it is cloned for the first time
   */
  presentDirectory(id: string): string {
    if (this.fetches.activityOf(id) !== 'cloning') return this.gitDirectory(id);
    const problem = this.fetches.problemOf(id);
    let message = 'this repository is being cloned for the first time: its contents come after that';
    if (problem !== null) {
      const { error, nextAttempt } = problem;
      // Clients must not see errors of this machine.
      const why = error instanceof RemoteError ? error.message : 'the service has an error; its log says why';
      const next = nextAttempt.toISOString();
      message = `this repository must be cloned, and cloning fails: ${why}; the next attempt is at ${next}`;
    }
    // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
    throw new RequestError(503, 'processing', message);
  }

  /** Ends running clones and fetches; nothing can be changed afterwards. */
  async close(): Promise<void> {
    const ended = this.fetches.close();
    await this.git.stop();
    await ended;
  }

  private rowOf(url: string, source: string): RegisteredRepository {
    const { name, fullName } = readAddress(url, this.sources);
    const created_at = formatCreatedAt(new Date());
    return { id: crypto.randomUUID(), name, full_name: fullName, url, created_at, source, cloned: false };
  }

  private async pull(row: RegisteredRepository, path: string, onChange = () => {}): Promise<boolean> {
    const remote = remoteOf(row, this.sources, await this.credentials.find(row.id));
    return pull(this.git, remote, path, this.maxBytes, onChange);
  }

  /** Adds a repository unless its name is taken. @throws RequestError 409 */
  private async add(
    repository: RegisteredRepository,
    make: (gitDirectory: string) => Promise<void>,
  ): Promise<void> {
    const { id, full_name: fullName } = repository;
    // The name is reserved while its repository is made.
    if (this.incomingNames.has(fullName) || this.list().some(({ full_name }) => full_name === fullName))
      throw new RequestError(409, 'exists', `a repository ${fullName} exists already`);
    this.incomingNames.add(fullName);
    try {
      await this.makeAside(id, make);
      // The repository becomes visible only now.
      await this.index.add(repository);
    } finally {
      this.incomingNames.delete(fullName);
    }
  }

  /** Makes a bare repository under a temporary name and, when complete, replaces the existing one. */
  private async makeAside(id: string, make: (gitDirectory: string) => Promise<void>): Promise<void> {
    const incoming = join(this.shelf, `${INCOMING_PREFIX}${id}`);
    const outgoing = join(this.shelf, `${INCOMING_PREFIX}${id}-before`);
    try {
      await make(incoming);
      await unlessMissing(rename(this.gitDirectory(id), outgoing));
      await rename(incoming, this.gitDirectory(id));
      await syncDirectory(this.shelf);
    } finally {
      await Promise.all([incoming, outgoing].map((path) => rm(path, { recursive: true, force: true })));
    }
  }
}

/**
 * Requires user name and password together: Git asks for both. Two empty fields, as a form sends them, mean no credentials.
 * @throws RequestError 400
 */
function credentialsOf({ username, password }: ExternalRepository): Credentials | null {
  if ((username ?? '') === '' && (password ?? '') === '') return null;
  if (username === null || username === '') throw invalid('username: is missing, but there is a password');
  if (password === null) throw invalid('password: is missing, but there is a user name');
  for (const [field, value] of Object.entries({ username, password })) {
    // A line feed would end the value in what Git reads (git-credential(1)).
    if (/\p{Cc}/u.test(value) || !value.isWellFormed())
      throw invalid(`${field}: holds a line feed, or another character that is not allowed`);
  }
  return { username, password };
}

/** Tells a client why a repository elsewhere cannot be read. */
function refuse(error: unknown): never {
  if (!(error instanceof RemoteError)) throw error;
  const text = withHint({ message: error.message, hint: error.hint ?? null });
  throw new RequestError(422, error.trouble, `url: ${text}`);
}
