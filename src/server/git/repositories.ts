import { readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { Places } from '../../lib/concurrency/concurrency.ts';
import { ensureFolder, syncDirectory } from '../../lib/disk/durable.ts';
import { unlessMissing } from '../../lib/errors/disk-errors.ts';
import { invalid, RequestError } from '../../lib/http/request.ts';
import { type Credentials, removeUnknownCredentials, writeCredentials } from '../external/credentials.ts';
import { RemoteError } from '../external/errors.ts';
import { Fetches } from '../external/fetches.ts';
import type { Remote } from '../external/reach.ts';
import { askRemote, pull, remoteOf } from '../external/remote.ts';
import type { ExternalRepository } from '../http/library.ts';
import { checkRepositoryName, ID, readAddress, type Sources } from './addresses.ts';
import { clearAway, initialise, keepExact } from './bare.ts';
import { Git } from './git.ts';
import { settleDefaultBranch } from './refs.ts';
import { formatCreatedAt, openIndex, type RegisteredRepository, writeIndex } from './repository-index.ts';
import { adviceOf, reasonOf, type Tell } from './tell.ts';

export interface RegistryOptions {
  /** Allowed addresses of external repositories; `https` if omitted. */
  readonly sources?: Sources;
  /** Limit for the objects of an external repository on disk, in bytes; none if omitted. */
  readonly maxRepositoryBytes?: number;
  /** Receives each fault found while the directory is opened, and the outcomes of fetches. */
  readonly tell?: Tell;
}

/** Timeout for a repository to answer while a client waits, in milliseconds. */
const ANNOUNCEMENT_LIMIT_MS = 20_000;

/** Prefix of a folder that is not a repository yet; a crash may leave one behind. */
const INCOMING_PREFIX = 'incoming-';

/**
 * Opens the repositories in a directory, which is made when it does not exist. One process at a time may have them open.
 * External repositories whose first clone was interrupted, or whose folder is gone, are cloned again.
 * @throws MirrorError `directory.unusable` when the index cannot be read, or is gone
 */
export async function openRegistry(directory: string, given: RegistryOptions = {}): Promise<Registry> {
  const options = { sources: 'https' as const, maxRepositoryBytes: Infinity, tell: () => {}, ...given };
  const root = resolve(directory);
  const shelf = join(root, 'repositories');
  await ensureFolder(shelf);
  const rows = await openIndex(root);
  const ids = new Set(rows.map(({ id }) => id));
  const { tell } = options;
  await removeUnknownCredentials(join(root, 'credentials'), ids);
  await clearShelf(shelf, ids, tell);
  const git = new Git();
  await Promise.all(
    rows.filter(({ cloned }) => cloned).map((row) => prepare(git, join(shelf, `${row.id}.git`), row, tell)),
  );
  return new Registry(root, rows, options);
}

/** Removes the leftovers of a crash, and reports repositories that are not in the index. */
async function clearShelf(shelf: string, ids: ReadonlySet<string>, tell: Tell): Promise<void> {
  for (const name of await readdir(shelf)) {
    const path = join(shelf, name);
    if (name.startsWith(INCOMING_PREFIX)) await rm(path, { recursive: true, force: true });
    const id = name.replace(/\.git$/, '');
    if (id !== name && ID.test(id) && !ids.has(id))
      tell(`${path} belongs to no repository in the list: it is kept, and not served.`, 'warn');
  }
}

/** Makes one repository ready. If it cannot be used, the others are still served. */
async function prepare(
  git: Git,
  gitDirectory: string,
  { id, source, full_name: name }: RegisteredRepository,
  tell: Tell,
): Promise<void> {
  try {
    await keepExact(gitDirectory);
    await clearAway(gitDirectory);
    // A crash may have happened between a push and this step.
    if (source === null) await settleDefaultBranch(git, gitDirectory);
  } catch (error) {
    const remedy = `Restore repositories/${id}.git from the backup; if it is gone, an external repository is cloned again.`;
    tell(`${name} cannot be used: ${reasonOf(error)}. ${remedy}`, 'error');
  }
}

/** The repositories of the service: a directory with one bare Git repository each, and an index. */
export class Registry {
  readonly fetches: Fetches;
  private readonly root: string;
  private readonly options: Required<RegistryOptions>;
  private readonly git = new Git();
  private readonly changes = new Places(1);
  private readonly incomingNames = new Set<string>();
  private rows: readonly RegisteredRepository[];

  constructor(root: string, rows: readonly RegisteredRepository[], options: Required<RegistryOptions>) {
    this.root = root;
    this.rows = rows;
    this.options = options;
    this.fetches = new Fetches(this.list, options.tell, this.fetch);
  }

  /** All repositories in the order they were created, also those whose first clone is under way. */
  readonly list = (): readonly RegisteredRepository[] => this.rows;

  /** Absolute path of a repository's bare Git repository, which exists once it has been cloned. */
  readonly gitDirectory = (id: string): string => join(this.root, 'repositories', `${id}.git`);

  /**
   * Creates an empty drag-and-drop repository.
   * @throws RequestError 400 for an unusable name, 409 for one that is taken
   */
  async create(name: string): Promise<RegisteredRepository> {
    checkRepositoryName(name);
    const row = { ...newRow(), name, full_name: name, url: null, source: null, cloned: true };
    return this.add(row, () => this.makeAside(row.id, (path) => initialise(this.git, path)));
  }

  /**
   * Connects a readable external Git repository, and fetches it afterwards.
   * @throws RequestError 400 for an address or credentials that cannot be used, 409 for an address that is connected already, 422 where
   *   the repository cannot be read
   */
  async connect(external: ExternalRepository): Promise<RegisteredRepository> {
    const row = this.externalRow(external.url, external.url);
    const credentials = credentialsOf(external);
    const remote = this.remoteOf(row);
    if (credentials !== null && remote.protocol === 'file')
      throw invalid('username: a repository of this machine takes no user name and password');
    try {
      await this.add(row, async () => {
        if (credentials !== null) await writeCredentials(remote.credentialFile, credentials);
        await askRemote(this.git, remote, ANNOUNCEMENT_LIMIT_MS).catch(refuse);
      });
    } catch (error) {
      await rm(remote.credentialFile, { force: true });
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
  connectSample(url: string, source: string): Promise<RegisteredRepository> {
    const row = { ...this.externalRow(url, source), cloned: true };
    return this.add(row, () => this.clone(row).catch(refuse));
  }

  /**
   * Gives the bare repository of a repository that has been cloned.
   * @returns its absolute path
   * @throws RequestError 503 while it is cloned for the first time
   */
  presentDirectory(id: string): string {
    if (this.rows.some((row) => row.id === id && row.cloned)) return this.gitDirectory(id);
    const error = this.fetches.errorOf(id);
    // Clients must not see errors of this machine.
    const why = error instanceof RemoteError ? error.message : 'the service has an error; its log says why';
    const message =
      error === null
        ? 'this repository is being cloned for the first time: its contents come after that'
        : `this repository must be cloned, and cloning fails: ${why}`;
    // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
    throw new RequestError(503, 'processing', message);
  }

  /** Ends running clones and fetches; nothing can be changed afterwards. */
  async close(): Promise<void> {
    await Promise.all([this.fetches.close(), this.git.stop()]);
  }

  private externalRow(url: string, source: string): RegisteredRepository {
    const { name, fullName } = readAddress(url, this.options.sources);
    return { ...newRow(), name, full_name: fullName, url, source, cloned: false };
  }

  private remoteOf(row: RegisteredRepository): Remote {
    return remoteOf(row, this.options.sources, join(this.root, 'credentials', row.id));
  }

  /** Adds a repository, which becomes visible once it is made, unless its name is taken. @throws RequestError 409 */
  private async add(row: RegisteredRepository, make: () => Promise<void>) {
    const { full_name: name } = row;
    // The name is reserved while its repository is made.
    if (this.incomingNames.has(name) || this.rows.some(({ full_name }) => full_name === name))
      throw new RequestError(409, 'exists', `a repository ${name} exists already`);
    this.incomingNames.add(name);
    try {
      await make();
      await this.change((rows) => [...rows, row]);
      return row;
    } finally {
      this.incomingNames.delete(name);
    }
  }

  /** Updates an external repository, or clones it, unless that is done. Returns whether anything was different. */
  private readonly fetch = async (row: RegisteredRepository, onChange: () => void): Promise<boolean> => {
    const gitDirectory = this.gitDirectory(row.id);
    if (row.cloned && (await unlessMissing(stat(gitDirectory))) !== null)
      return pull(this.git, this.remoteOf(row), gitDirectory, this.options.maxRepositoryBytes, onChange);
    await this.clone(row, onChange);
    const cloned = { ...row, cloned: true };
    if (!row.cloned) await this.change((rows) => rows.map((each) => (each.id === row.id ? cloned : each)));
    return true;
  };

  private clone(row: RegisteredRepository, onChange = (): void => {}): Promise<void> {
    return this.makeAside(row.id, async (path) => {
      await initialise(this.git, path);
      await pull(this.git, this.remoteOf(row), path, this.options.maxRepositoryBytes, onChange);
    });
  }

  /** Makes a bare repository under a temporary name, and gives it its own when it is complete. */
  private async makeAside(id: string, make: (path: string) => Promise<void>): Promise<void> {
    const gitDirectory = this.gitDirectory(id);
    const shelf = dirname(gitDirectory);
    const incoming = join(shelf, INCOMING_PREFIX + id);
    try {
      await make(incoming);
      // Version 0.1.0 made an empty repository before the first clone.
      await rm(gitDirectory, { recursive: true, force: true });
      await rename(incoming, gitDirectory);
      await syncDirectory(shelf);
    } finally {
      await rm(incoming, { recursive: true, force: true });
    }
  }

  /** Changes the list; resolves once that is durable and visible. */
  private change(make: (rows: readonly RegisteredRepository[]) => readonly RegisteredRepository[]) {
    return this.changes.run(async () => {
      const rows = make(this.rows);
      await writeIndex(this.root, rows);
      this.rows = rows;
    });
  }
}

/** The fields of a new repository that come from nowhere else. */
const newRow = () => ({ id: crypto.randomUUID(), created_at: formatCreatedAt(new Date()) });

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
  throw new RequestError(422, error.trouble, `url: ${adviceOf(error)}`);
}
