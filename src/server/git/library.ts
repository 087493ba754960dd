import type { ExternalRepository, Library, Repository, Workbooks } from '../http/library.ts';
import { createUploads } from '../uploads/commits.ts';
import { packGrown } from './bare.ts';
import { contentAt } from './contents.ts';
import { Git } from './git.ts';
import { createGitReply } from './http-backend.ts';
import { createWorkbookListing } from './listing.ts';
import { createProcessingStatuses, PROCESSING, SUCCESS } from './processing-status.ts';
import type { Registry } from './repositories.ts';
import type { Tell } from './tell.ts';

/** The repositories of a registry, as the service reads and changes them. */
export type GitLibrary = ReturnType<typeof createGitLibrary>;

/** Everything that changes repositories, which are named by their ids. */
export type Changes = GitLibrary['changes'];

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
export function createGitLibrary(registry: Registry, options: GitLibraryOptions = {}) {
  const { hasChecks = false, maxUploadBytes = DEFAULT_MAX_UPLOAD_BYTES } = options;
  const git = new Git();
  let isClosing = false;
  const tell: Tell = (...notice) => {
    // Failures of programs ended at shutdown say nothing about the repositories.
    if (!isClosing) options.tell?.(...notice);
  };
  const listing = createWorkbookListing(git, registry, tell);
  const statuses = hasChecks ? createProcessingStatuses(git, registry, tell) : null;

  async function workbooks(): Promise<Workbooks> {
    const rows = await listing.rows();
    statuses?.look(rows);
    const unreadable = listing.unreadable();
    // Rows of a repository that is being fetched, or is unreadable now, may be old.
    const isBusy = ({ id }: Repository): boolean => unreadable.has(id) || registry.fetches.isFetching(id);
    const busy = new Set(
      registry
        .list()
        .filter(isBusy)
        .map(({ full_name }) => full_name),
    );
    const statusOf: Workbooks['statusOf'] = (row) =>
      busy.has(row.integration) ? PROCESSING : (statuses?.of(row) ?? SUCCESS);
    return { rows, statusOf };
  }

  /** The work after an upload, push or fetch; it delays no client. */
  function onChange(repositoryId: string): void {
    void packGrown(git, registry.gitDirectory(repositoryId));
    // New versions are checked before anyone lists them. Errors are dropped here: a request for the list reports them.
    if (statuses !== null) workbooks().catch(() => undefined);
  }
  registry.fetches.onFetched = onChange;

  return {
    repositories: () => Promise.resolve(registry.list()),
    content: (async ({ repository, branch, path }) =>
      contentAt(git, registry.presentDirectory(repository.id), branch, path)) satisfies Library['content'],
    workbooks,
    changes: {
      create: (name: string) => registry.create(name),
      connect: (external: ExternalRepository) => registry.connect(external),
      /** Fetches an external repository soon; requests before that share one fetch. Returns false if it is not external. */
      fetchSoon: (id: string) => registry.fetches.soon(id),
      ...createUploads(git, registry, { maxUploadBytes, onCommitted: onChange }),
      gitReply: createGitReply(git, registry, { maxUploadBytes, onPushed: onChange }),
    },
    /**
     * Lists the workbooks and waits until each is checked.
     * @throws MirrorError `service.failed` when a repository cannot be read
     */
    checkAll: async (): Promise<void> => {
      await workbooks();
      await statuses?.idle();
    },
    /** Ends every running git program and check. */
    close: (): Promise<void> => {
      isClosing = true;
      statuses?.close();
      return git.stop();
    },
  };
}
