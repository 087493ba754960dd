import type { ExternalRepository, Library, Workbooks } from '../http/library.ts';
import { createContents } from './git-contents.ts';
import { Git } from './git.ts';
import { createWorkbookListing } from './listing.ts';
import { createGitServer } from './http-backend.ts';
import { packGrown } from './bare.ts';
import type { Registry } from './repositories.ts';
import { createProcessingStatuses, PROCESSING, SUCCESS } from './processing-status.ts';
import type { Tell } from './tell.ts';
import { createUploads } from '../uploads/commits.ts';

/** The repositories of a registry, as the service reads and changes them. */
export interface GitLibrary extends Library {
  readonly changes: Changes;
  /**
   * Lists the workbooks and waits until each is checked.
   * @throws MirrorError `service.failed` when a repository cannot be read
   */
  readonly checkAll: () => Promise<void>;
  /** Ends every running git program and check. */
  readonly close: () => Promise<void>;
}

const DEFAULT_MAX_UPLOAD_BYTES = 2 * 1024 ** 3;

export interface GitLibraryOptions {
  /** Whether the files of listed workbooks are checked; false if omitted: then every workbook is processed. */
  readonly hasChecks?: boolean;
  /** Receives repositories that became unreadable or readable again, and failed workbooks. */
  readonly tell?: Tell;
  /** Largest uploaded file and largest push; 2 GiB if omitted. */
  readonly maxUploadBytes?: number;
}

/** Makes the library of a registry; the caller closes the registry. */
export function createGitLibrary(registry: Registry, options: GitLibraryOptions = {}): GitLibrary {
  const { hasChecks = false, maxUploadBytes = DEFAULT_MAX_UPLOAD_BYTES } = options;
  const git = new Git();
  const contentAt = createContents(git);
  let isClosing = false;
  const tell: Tell = (...notice) => {
    // Failures of programs ended at shutdown say nothing about the repositories.
    if (!isClosing) options.tell?.(...notice);
  };
  const listing = createWorkbookListing(git, registry, tell);
  const statuses = hasChecks ? createProcessingStatuses({ git, registry, tell }) : null;
  const statusOf = statuses?.of ?? (() => SUCCESS);
  const workbooks = async (): Promise<Workbooks> => {
    const rows = await listing.rows();
    statuses?.look(rows);
    return { rows, statusOf: unlessBusy(registry, listing.unreadable(), statusOf) };
  };
  const onChange = (repositoryId: string): void => {
    void packGrown(git, registry.gitDirectory(repositoryId));
    // New versions are checked before anyone lists them. Errors are dropped here: a request for the list reports them.
    if (statuses !== null) workbooks().catch(() => undefined);
  };
  registry.fetches.onFetched = onChange;
  const changes = createChanges(git, registry, maxUploadBytes, onChange);
  return {
    repositories: () => Promise.resolve(registry.list()),
    content: async ({ id }, branch, path) => contentAt(registry.presentDirectory(id), branch, path),
    workbooks,
    changes,
    async checkAll() {
      await workbooks();
      await statuses?.idle();
    },
    async close() {
      isClosing = true;
      statuses?.close();
      await git.stop();
    },
  };
}

/** Shows all workbooks of a repository that is being fetched, or is unreadable now, as processing. */
function unlessBusy(
  registry: Registry,
  unreadable: ReadonlySet<string>,
  statusOf: Workbooks['statusOf'],
): Workbooks['statusOf'] {
  const busy = registry
    .list()
    .filter(({ id }) => unreadable.has(id) || registry.fetches.activityOf(id) !== null);
  if (busy.length === 0) return statusOf;
  const names = new Set(busy.map(({ full_name }) => full_name));
  return (row) => (names.has(row.integration) ? PROCESSING : statusOf(row));
}

/** Everything that changes repositories, which are named by their ids. */
export type Changes = ReturnType<typeof createChanges>;

/** @param onChange receives the id of a repository after an upload or push; must neither throw nor delay the client */
function createChanges(
  git: Git,
  registry: Registry,
  maxUploadBytes: number,
  onChange: (repositoryId: string) => void,
) {
  return {
    create: (name: string) => registry.create(name),
    connect: (external: ExternalRepository) => registry.connect(external),
    /** Fetches an external repository soon; requests before that share one fetch. Returns false if it is not external. */
    fetchSoon: (id: string) => registry.fetches.soon(id),
    ...createUploads(git, registry, { maxUploadBytes, onCommitted: onChange }),
    ...createGitServer(git, registry, { maxUploadBytes, onPushed: onChange }),
  };
}
