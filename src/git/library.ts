import type { Changes, Library, Standing, WorkbookRow, Workbooks } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import { createBranchReader } from './branch-reader.ts';
import { contentAt } from './contents.ts';
import { createConversations } from './conversations.ts';
import { createGit } from './git.ts';
import { createWorkbookListing } from './listing.ts';
import { lookingAfter } from './looking.ts';
import { createRegistrar } from './registrar.ts';
import type { Registry } from './registry.ts';
import { BEING_FETCHED, createStandings, type StandingsOptions } from './standings.ts';
import { createUploads } from './uploads.ts';

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
const DONE: Standing = { status: 'success', processing: 0, failure: 0 };

/** When to ask again for what is being cloned, in seconds. Short: clients leave the whole service alone for so long. */
const CLONING_RETRY_SECONDS = 10;

function stillCloning(fullName: string): RequestError {
  const message = `the repository ${fullName} is being cloned for the first time: its contents come when that is done`;
  return new RequestError(503, 'processing', message, { 'retry-after': String(CLONING_RETRY_SECONDS) });
}

/** What a library is made from besides its registry. */
export interface GitLibraryOptions {
  /** What has been made of a workbook so far; left out, everything is well, unless there are checks. */
  readonly standingOf?: (row: WorkbookRow) => Standing;
  /** Opens the files of the workbooks that are listed, and remembers what was found; they stay the caller's to close. */
  readonly checks?: Pick<StandingsOptions, 'checker' | 'findings' | 'onFailure'>;
  /** The greatest file that is uploaded, and the greatest push; 2 GiB if left out. */
  readonly maxUploadBytes?: number;
}

/** Makes the library of a registry, which stays the caller's to close. */
export function createGitLibrary(registry: Registry, options: GitLibraryOptions = {}): GitLibrary {
  const { checks, maxUploadBytes = DEFAULT_MAX_UPLOAD_BYTES } = options;
  const git = createGit();
  const branches = createBranchReader(git);
  const listing = createWorkbookListing(git, registry, branches);
  const standings = checks === undefined ? null : createStandings({ git, registry, ...checks });
  const standingOf = options.standingOf ?? standings?.of ?? (() => DONE);
  const workbooks = async (): Promise<Workbooks> => {
    const rows = await listing.rows();
    standings?.look(rows);
    return { rows, standingOf: unlessBusy(registry, standingOf) };
  };
  const changes: Changes = {
    ...createRegistrar(registry),
    ...createUploads(git, registry, maxUploadBytes),
    ...createConversations(git, registry, maxUploadBytes),
  };
  const lookSoon = (): void => {
    // A repository that cannot be read is told to who asks for the list.
    workbooks().catch(() => undefined);
  };
  return {
    repositories: () => Promise.resolve(registry.list()),
    content: async ({ id, full_name }, branch, path) => {
      if (registry.activityOf(id) === 'cloning') throw stillCloning(full_name);
      return contentAt(git, branches, registry.gitDirectory(id), branch, path);
    },
    workbooks,
    changes: standings === null ? changes : lookingAfter(changes, lookSoon),
    async checkAll() {
      await workbooks();
      await standings?.idle();
    },
    async close() {
      standings?.close();
      await git.stop();
    },
  };
}

/** What is being fetched is not finished, whatever is known of its workbooks so far. */
function unlessBusy(registry: Registry, standingOf: Workbooks['standingOf']): Workbooks['standingOf'] {
  const busy = registry.list().filter(({ id }) => registry.activityOf(id) !== null);
  if (busy.length === 0) return standingOf;
  const names = new Set(busy.map(({ full_name }) => full_name));
  return (row) => (names.has(row.integration) ? BEING_FETCHED : standingOf(row));
}
