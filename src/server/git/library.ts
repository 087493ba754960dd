import type {
  ExternalRepository,
  Library,
  ProcessingStatus,
  WorkbookRow,
  Workbooks,
} from '../http/library.ts';
import { createContents } from './git-contents.ts';
import { Git } from './git.ts';
import { createWorkbookListing } from './listing.ts';
import { createGitServer } from './http-backend.ts';
import { createHousekeeping } from './bare.ts';
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
  /** Ends every git program and every check under way. */
  readonly close: () => Promise<void>;
}

const DEFAULT_MAX_UPLOAD_BYTES = 2 * 1024 ** 3;

export interface GitLibraryOptions {
  /** Gives the state of a workbook; left out, everything is well, unless there are checks. */
  readonly standingOf?: (row: WorkbookRow) => ProcessingStatus;
  /** Whether the files of the workbooks that are listed are checked; not if left out. */
  readonly hasChecks?: boolean;
  /** Receives which repositories cannot be read and can be again, and which workbooks failed. */
  readonly tell?: Tell;
  /** The greatest file that is uploaded, and the greatest push; 2 GiB if left out. */
  readonly maxUploadBytes?: number;
}

/** Makes the library of a registry, which stays the caller's to close. */
export function createGitLibrary(registry: Registry, options: GitLibraryOptions = {}): GitLibrary {
  const { hasChecks = false, maxUploadBytes = DEFAULT_MAX_UPLOAD_BYTES } = options;
  const git = new Git();
  // Packing and reading histories may take long: they take no place from what somebody waits for.
  const packer = new Git();
  const historian = new Git();
  const contentAt = createContents(git);
  let isClosing = false;
  const tell: Tell = (...notice) => {
    // Programs that are ended at the end say nothing of what they read.
    if (!isClosing) options.tell?.(...notice);
  };
  const listing = createWorkbookListing(historian, registry, tell);
  const standings = hasChecks ? createProcessingStatuses({ git, registry, tell }) : null;
  const standingOf = options.standingOf ?? standings?.of ?? (() => SUCCESS);
  const workbooks = async (): Promise<Workbooks> => {
    const rows = await listing.rows();
    standings?.look(rows);
    return { rows, standingOf: unlessBusy(registry, listing.unreadable(), standingOf) };
  };
  const packSoon = createHousekeeping(packer, registry.gitDirectory);
  const onChange = (repositoryId: string): void => {
    packSoon(repositoryId);
    // New versions are checked before anyone lists them. Errors are dropped here: a request for the list reports them.
    if (standings !== null) workbooks().catch(() => undefined);
  };
  registry.onFetched(onChange);
  const changes = createChanges(git, registry, maxUploadBytes, onChange);
  return {
    repositories: () => Promise.resolve(registry.list()),
    content: async ({ id }, branch, path) => contentAt(registry.presentDirectory(id), branch, path),
    workbooks,
    changes,
    async checkAll() {
      await workbooks();
      await standings?.idle();
    },
    async close() {
      isClosing = true;
      standings?.close();
      await Promise.all([git, packer, historian].map((each) => each.stop()));
    },
  };
}

/** Shows a repository that is being fetched, or cannot be read now, as processing, whatever is known of its workbooks so far. */
function unlessBusy(
  registry: Registry,
  unreadable: ReadonlySet<string>,
  standingOf: Workbooks['standingOf'],
): Workbooks['standingOf'] {
  const busy = registry
    .list()
    .filter(({ id }) => unreadable.has(id) || registry.fetches.activityOf(id) !== null);
  if (busy.length === 0) return standingOf;
  const names = new Set(busy.map(({ full_name }) => full_name));
  return (row) => (names.has(row.integration) ? PROCESSING : standingOf(row));
}

/** Everything that changes repositories, which are named by their ids. */
export type Changes = ReturnType<typeof createChanges>;

/** @param onChange is given the id of a repository to which something was uploaded or pushed; neither throws nor keeps the client waiting */
function createChanges(
  git: Git,
  registry: Registry,
  maxUploadBytes: number,
  onChange: (repositoryId: string) => void,
) {
  return {
    create: (name: string) => registry.create(name),
    connect: (external: ExternalRepository) => registry.connect(external),
    /** Fetches an external repository soon, once for all who ask before that. Gives false for one that is not external. */
    fetchSoon: (id: string) => registry.fetches.soon(id),
    ...createUploads(git, registry, { maxUploadBytes, onCommitted: onChange }),
    ...createGitServer(git, registry, { maxUploadBytes, onPushed: onChange }),
  };
}
