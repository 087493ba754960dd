import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { countNames } from './reference-forms.ts';
import { knownBranch, type Listing, type Repository, type UnreadRows, type WorkbookRow } from './listing.ts';
import {
  type ContentsAnswer,
  type ContentsContext,
  type ContentsRequest,
  contentsExist,
  downloadContents,
  downloadFile,
  type FileAnswer,
  type FileRequest,
} from './download-contents.ts';
import { olderOf } from './cached.ts';
import { owns, type Shard } from '../plan/shard.ts';
import { PageCache, type WantsRepository } from './pages.ts';
import type { ReferenceMemory } from './reference-forms.ts';
import { readRepositories, type RepositoryList, type RepositoryMemory } from './repositories.ts';
import type { Transport } from './transport.ts';
import { readWorkbooks, type WorkbookList } from './workbooks.ts';

/** The service, as this program uses it. Every call may throw a MirrorError `service.*` or `credentials.refused`. */
export interface ServiceClient {
  readonly repositories: (signal: AbortSignal) => Promise<RepositoryList>;
  /** Null where the service has no v1. */
  readonly workbooks: (signal: AbortSignal, status?: WorkbookStatusFilter) => Promise<WorkbookList | null>;
  /**
   * The complete answer of a poll.
   * @param isUrgent a person waits: keys that the service refused, and that therefore wait, are tried once more
   */
  readonly poll: (signal: AbortSignal, isUrgent?: boolean) => Promise<Listing>;
  /**
   * A listing that was begun after the call, to learn what changed at the service since a poll. Calls that come while one is read
   * share the next one.
   */
  readonly pollAgain: (signal: AbortSignal) => Promise<Listing>;
  readonly download: (request: ContentsRequest) => Promise<ContentsAnswer>;
  readonly downloadFile: (request: FileRequest) => Promise<FileAnswer>;
  readonly exists: (
    request: Pick<ContentsRequest, 'repository' | 'branch' | 'signal'> & { readonly path: string },
  ) => Promise<boolean>;
  readonly close: () => Promise<void>;
}

/**
 * Makes a client over a transport.
 * @param memory what is known of this installation; written to as it is found out
 * @param shard the share of this instance: polls leave out the workbooks of other repositories; null where it mirrors all
 */
export function createClient(
  transport: Transport,
  memory: ReferenceMemory,
  limits: Pick<ContentsContext, 'maxArchiveBytes'>,
  shard: Shard | null = null,
): ServiceClient {
  let nameCounts: ReadonlyMap<string, number> = new Map();
  let v1Absences = 0;
  let hasV1 = false;
  const believeAbsence = (workbooks: WorkbookList | null): void => {
    hasV1 ||= workbooks !== null;
    v1Absences = workbooks === null ? v1Absences + 1 : 0;
    if (hasV1 && v1Absences > 0 && v1Absences < ABSENCES_OF_V1) throw v1Vanished();
  };
  const listMemory = new PageCache();
  const wantedBy = rememberedWants(shard);
  const repositoryMemory: RepositoryMemory = {};
  const joiner = new RowJoiner();
  const context = { transport, memory, ...limits, proven: new Map(), nameCounts: () => nameCounts };
  const poll = async (signal: AbortSignal, isUrgent = false): Promise<Listing> => {
    transport.admit(isUrgent);
    const beganAtMs = Date.now();
    const repositories = await readRepositories(transport, signal, repositoryMemory);
    const wants = wantedBy(repositories.repositories);
    const workbooks = await readWorkbooks(transport, signal, undefined, listMemory, wants);
    believeAbsence(workbooks);
    nameCounts = countNames(repositories.repositories);
    return { address: transport.address, ...combine(beganAtMs, repositories, workbooks, joiner) };
  };
  // One caller that leaves must not end the reading that others wait for.
  const closing = new AbortController();
  const pollOnce = shareWork(() => poll(closing.signal));
  return {
    repositories: (signal) => readRepositories(transport, signal),
    workbooks: (signal, status) => readWorkbooks(transport, signal, status),
    poll,
    pollAgain: (signal) => unlessAborted(pollOnce(), signal),
    download: (request) => downloadContents(context, request),
    downloadFile: (request) => downloadFile(context, request),
    exists: (request) => contentsExist(context, request),
    close: () => {
      closing.abort();
      return transport.close();
    },
  };
}

/** Makes a function that says which rows a share needs, for as long as the list of repositories stays the same value. */
function rememberedWants(shard: Shard | null): (repositories: readonly Repository[]) => WantsRepository {
  let last: { readonly of: readonly Repository[]; readonly wants: WantsRepository } | null = null;
  return (repositories) => {
    if (last?.of !== repositories) last = { of: repositories, wants: wantsOf(shard, repositories) };
    return last.wants;
  };
}

/** Rows that name no listed repository are wanted, too: they are reported. */
function wantsOf(shard: Shard | null, repositories: readonly Repository[]): WantsRepository {
  if (shard === null) return () => true;
  const own = new Set<string>();
  const theirs = new Set<string>();
  for (const { id, fullName } of repositories) {
    const names = owns(shard, id) ? own : theirs;
    names.add(id).add(fullName);
  }
  return (name) => own.has(name) || !theirs.has(name);
}

/** An installation that had v1 a moment ago must be without it so many polls in a row before that is believed. */
const ABSENCES_OF_V1 = 2;

function v1Vanished(): MirrorError {
  return new MirrorError(
    'service.not_found',
    'The list of workbooks (v1), which was there before, answers 404.',
    {
      hint: 'If it stays away, the next poll goes on without it and compares contents. If v1 was switched off for good, leave service.apiToken out.',
    },
  );
}

function combine(
  beganAtMs: number,
  repositories: RepositoryList,
  workbooks: WorkbookList | null,
  joiner: RowJoiner,
): Omit<Listing, 'address'> {
  const joined = workbooks === null ? null : joiner.join(repositories.repositories, workbooks);
  const cached = olderOf(repositories.cached, workbooks?.cached ?? null);
  return {
    takenAtMs: Math.min(beganAtMs, cached?.asOfMs ?? beganAtMs),
    cached,
    serviceTimeMs: repositories.serviceTimeMs,
    repositories: repositories.repositories,
    repositoriesComplete: repositories.isComplete,
    workbooks: joined?.rows ?? null,
    unread: unreadRows(repositories, workbooks),
    workbooksComplete: workbooks?.isComplete ?? false,
    problems: [
      ...repositories.problems,
      ...(workbooks?.problems ?? []),
      ...(joined?.unlisted ?? []).map(
        (name) => `the list of workbooks names the repository ${JSON.stringify(name)}, which is not listed`,
      ),
    ],
  };
}

/** The repositories that malformed rows are about, which name them as others do: by full name or by id. */
function unreadRows({ repositories }: RepositoryList, workbooks: WorkbookList | null): UnreadRows {
  const named = new Set(workbooks?.malformed.map(({ repository }) => repository));
  const hidden = repositories.filter(({ id, fullName }) => named.has(id) || named.has(fullName));
  return { repositories: new Set(hidden.map(({ fullName }) => fullName)), isAnywhere: named.has(null) };
}

/** Rows, each with the full name of its repository, and with its branch as that is known here. */
interface JoinedRows {
  readonly rows: readonly WorkbookRow[];
  /** Names of repositories that are not listed. */
  readonly unlisted: readonly string[];
}

/**
 * Joins rows to repositories by full name or, where an installation sends that instead, by id. What was joined is kept: as long
 * as a page and the repositories are the same values, so are its rows.
 */
class RowJoiner {
  private repositories: readonly Repository[] = [];
  /** Full names, by id and by themselves. */
  private names: ReadonlyMap<string, string> = new Map();
  private pages = new WeakMap<readonly WorkbookRow[], JoinedRows>();
  /** The list that was joined last, page by page, so that the same pages give the very same rows. */
  private last: { readonly pages: readonly JoinedRows[]; readonly joined: JoinedRows } | null = null;

  join(repositories: readonly Repository[], list: Pick<WorkbookList, 'rows' | 'pages'>): JoinedRows {
    if (repositories !== this.repositories) {
      this.repositories = repositories;
      this.names = new Map([
        ...repositories.map(({ id, fullName }) => [id, fullName] as const),
        ...repositories.map(({ fullName }) => [fullName, fullName] as const),
      ]);
      this.pages = new WeakMap();
      this.last = null;
    }
    const pages = list.pages.map((rows) => this.joinPage(rows));
    const { last } = this;
    if (last?.pages.length === pages.length && pages.every((page, index) => page === last.pages[index]))
      return last.joined;
    const isSame = pages.every((page, index) => page.rows === list.pages[index]);
    const joined = {
      rows: isSame ? list.rows : pages.flatMap((page) => page.rows),
      unlisted: [...new Set(pages.flatMap((page) => page.unlisted))],
    };
    this.last = { pages, joined };
    return joined;
  }

  private joinPage(rows: readonly WorkbookRow[]): JoinedRows {
    const known = this.pages.get(rows);
    if (known !== undefined) return known;
    const unlisted = new Set<string>();
    const named = rows.map((row) => {
      const fullName = this.names.get(row.repository);
      if (fullName === undefined) unlisted.add(row.repository);
      return asKnown(row, fullName ?? row.repository);
    });
    const isSame = named.every((row, index) => row === rows[index]);
    const joined = { rows: isSame ? rows : named, unlisted: [...unlisted] };
    this.pages.set(rows, joined);
    return joined;
  }
}

function asKnown(row: WorkbookRow, repository: string): WorkbookRow {
  const branch = knownBranch(row.branch);
  return row.repository === repository && row.branch === branch ? row : { ...row, repository, branch };
}
