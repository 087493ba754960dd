import { countNames } from '../../lib/api/references.ts';
import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { foldName } from '../../lib/paths/safe-path.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { readRepositories, type RepositoryList, type RepositoryMemory } from './lists.ts';
import { olderOf } from './answers.ts';
import { knownBranch, type Listing, type Repository, type UnreadRows, type WorkbookRow } from './listing.ts';
import { Contents } from './contents.ts';
import { owns, type Shard } from '../plan/selection.ts';
import { readWorkbooks, type WorkbookList, type WorkbookMemory } from './workbooks.ts';

/** The service, as this program uses it. Every call may throw a MirrorError `service.*` or `credentials.refused`. */
export class ServiceClient extends Contents {
  readonly #shard: Shard | null;
  readonly #memory: RepositoryMemory & WorkbookMemory = {};
  #joined: JoinedRows | null = null;
  /** How many polls in a row found no list of workbooks. */
  #absences = ABSENCES_OF_V1;
  // One caller that leaves must not end a reading that others wait for.
  readonly #closing = new AbortController();
  readonly #nextPoll = shareWork(() => this.poll(this.#closing.signal));

  /**
   * @param shard the share of this instance: its listings leave out the workbooks of other repositories; null if it mirrors all
   * @param contents the other parameters of {@link Contents}
   */
  constructor(shard: Shard | null, ...contents: ConstructorParameters<typeof Contents>) {
    super(...contents);
    this.#shard = shard;
  }

  repositories(signal: AbortSignal): Promise<RepositoryList> {
    return readRepositories(this.transport, signal);
  }

  /** Null if the service has no v1. */
  workbooks(signal: AbortSignal, status?: WorkbookStatusFilter): Promise<WorkbookList | null> {
    return readWorkbooks(this.transport, signal, status);
  }

  /**
   * The complete answer of a poll.
   * @param isUrgent a user waits: refused keys, which otherwise wait, are tried once more
   */
  async poll(signal: AbortSignal, isUrgent = false): Promise<Listing> {
    const { transport } = this;
    transport.keyring.admit(isUrgent);
    const beganAtMs = Date.now();
    const list = await readRepositories(transport, signal, this.#memory);
    const workbooks = await readWorkbooks(transport, signal, undefined, this.#memory);
    this.#absences = workbooks === null ? this.#absences + 1 : 0;
    if (workbooks === null && this.#absences < ABSENCES_OF_V1) throw v1Vanished();
    return this.#listing(beganAtMs, list, workbooks);
  }

  #listing(beganAtMs: number, list: RepositoryList, workbooks: WorkbookList | null): Listing {
    const { repositories } = list;
    this.nameCounts = countNames(repositories, list.hiddenNames);
    const joined = workbooks && joinRows(this.#shard, repositories, workbooks, this.#joined);
    this.#joined = joined;
    const problems = [...list.problems, ...(workbooks?.problems ?? []), ...(joined?.problems ?? [])];
    const cached = olderOf(list.cached, workbooks?.cached ?? null);
    return {
      address: this.transport.address,
      takenAtMs: Math.min(beganAtMs, cached?.asOfMs ?? beganAtMs),
      cached,
      serviceTimeMs: list.serviceTimeMs,
      repositories,
      repositoriesComplete: list.isComplete,
      workbooks: joined && joined.rows,
      unread: joined?.unread ?? { repositories: new Set(), isAnywhere: false },
      workbooksComplete: workbooks?.isComplete ?? false,
      // They are stored and shown, and a row may repeat a key that it was sent.
      problems: problems.map((problem) => scrub(problem, this.transport.keyring.values())),
    };
  }

  /**
   * A listing that begins after the call, to learn what changed since a poll. Calls that arrive during a reading
   * share the next one.
   */
  pollAgain(signal: AbortSignal): Promise<Listing> {
    return unlessAborted(this.#nextPoll(), signal);
  }

  close(): Promise<void> {
    this.#closing.abort();
    return this.transport.close();
  }
}

/** The calls of the service that passes need. */
export type PassService = Pick<ServiceClient, 'poll' | 'pollAgain' | 'download' | 'downloadFile' | 'exists'>;

/** If an installation had v1, this many polls in a row must miss it before its absence is believed. */
const ABSENCES_OF_V1 = 2;

function v1Vanished(): MirrorError {
  return new MirrorError(
    'service.not_found',
    'The list of workbooks (v1), which was there before, answers 404.',
    {
      hint: 'If this persists, the next poll continues without it and compares contents. If v1 was switched off for good, leave service.apiToken out.',
    },
  );
}

/** Rows of this shard, each with the full name of its repository and our name of its branch. */
interface JoinedRows {
  /** The lists that they were made from. */
  readonly from: { readonly repositories: readonly Repository[]; readonly rows: readonly WorkbookRow[] };
  readonly rows: readonly WorkbookRow[];
  readonly unread: UnreadRows;
  /** A sentence for each repository that is not listed. */
  readonly problems: readonly string[];
}

/**
 * Joins rows to repositories by full name, in whichever case or Unicode form if only one can be meant, or, if an installation sends that
 * instead, by id. Rows that name no listed repository stay: they are reported.
 * @param last the result of the last call: the same lists return the same value
 */
export function joinRows(
  shard: Shard | null,
  repositories: readonly Repository[],
  list: Pick<WorkbookList, 'rows' | 'malformed' | 'repeated'>,
  last: JoinedRows | null,
): JoinedRows {
  const { rows } = list;
  if (last?.from.repositories === repositories && last.from.rows === rows) return last;
  const repositoryOf = finder(repositories, rows);
  // Several repositories may have one name: rows of that name are about each of them.
  const own = new Set(repositories.filter(({ id }) => owns(shard, id)).map(({ fullName }) => fullName));
  const described = new Set<string>();
  const unlisted = new Set<string>();
  const joined = rows.flatMap((row) => {
    const repository = repositoryOf(row.repository);
    if (repository === undefined) unlisted.add(row.repository);
    else described.add(repository.fullName);
    if (repository !== undefined && !own.has(repository.fullName)) return [];
    const branch = knownBranch(row.branch);
    const fullName = repository?.fullName ?? row.repository;
    return row.repository === fullName && row.branch === branch
      ? row
      : { ...row, repository: fullName, branch };
  });
  const names = list.malformed.flatMap(({ repository }) => repository ?? []);
  const strange = [...unlisted, ...names.filter((name) => repositoryOf(name) === undefined)];
  const ofBranches = list.malformed.flatMap(({ repository, branch }) => {
    const fullName = repository === null ? undefined : repositoryOf(repository)?.fullName;
    return fullName === undefined || branch === null ? [] : [{ fullName, branch: knownBranch(branch) }];
  });
  const mayHideRows = isUnordered(list, repositories);
  const unread = mayHideRows
    ? repositories
    : repositoriesBehind([...unlisted, ...names], strange, repositories, described);
  const problems = [...unlisted].map(
    (name) => `the list of workbooks names the repository ${JSON.stringify(name)}, which is not listed`,
  );
  if (mayHideRows)
    problems.push(
      'rows of the list of workbooks are on two pages: the contents of all repositories are compared',
    );
  return {
    from: { repositories, rows },
    rows: joined,
    unread: {
      repositories: new Set(unread.map(({ fullName }) => fullName)),
      isAnywhere: names.length < list.malformed.length,
      ...(ofBranches.length === 0 ? {} : { branches: branchesByName(ofBranches) }),
    },
    problems,
  };
}

function branchesByName(
  rows: readonly { readonly fullName: string; readonly branch: string }[],
): NonNullable<UnreadRows['branches']> {
  const byName = Map.groupBy(rows, ({ fullName }) => fullName);
  return new Map([...byName].map(([name, its]) => [name, its.map(({ branch }) => branch)]));
}

/**
 * Whether the pages of a list have no fixed order: if one row is on two pages, another may be on none. Several repositories of one name
 * have equal rows, which may be on two pages.
 */
function isUnordered(
  { repeated }: Pick<WorkbookList, 'repeated'>,
  repositories: readonly Repository[],
): boolean {
  return [...repeated].some((name) => repositories.filter(({ fullName }) => fullName === name).length < 2);
}

/**
 * The repositories to which rows with these names may belong.
 * @param hidden names, in any form, of repositories with rows that cannot be read or do not belong to any
 * @param strange those that belong to no repository: they may mean one without rows whose name ends like theirs
 * @param described the full names of repositories with rows
 */
function repositoriesBehind(
  hidden: readonly string[],
  strange: readonly string[],
  repositories: readonly Repository[],
  described: ReadonlySet<string>,
): readonly Repository[] {
  if (hidden.length === 0) return [];
  const forms = new Set(hidden.map(foldName));
  const ends = new Set(strange.map(nameAlone));
  return repositories.filter(
    ({ id, fullName }) =>
      forms.has(foldName(id)) ||
      forms.has(foldName(fullName)) ||
      (!described.has(fullName) && ends.has(nameAlone(fullName))),
  );
}

/** Makes a function that finds the repository that a row names; undefined if none is listed, or several can be meant. */
function finder(
  repositories: readonly Repository[],
  rows: readonly WorkbookRow[],
): (name: string) => Repository | undefined {
  const named = new Map([
    ...repositories.map((repository) => [repository.id, repository] as const),
    ...repositories.map((repository) => [repository.fullName, repository] as const),
  ]);
  const folded = Map.groupBy(repositories, ({ fullName }) => foldName(fullName));
  // A repository that rows name exactly is not meant by another form of its name.
  const exact = new Set(rows.map(({ repository }) => named.get(repository)));
  return (name) => {
    const known = named.get(name);
    if (known !== undefined) return known;
    const [likely, ...others] = folded.get(foldName(name)) ?? [];
    return others.length === 0 && !exact.has(likely) ? likely : undefined;
  };
}

/** The last part of a repository's name, without what may differ between two lists. */
function nameAlone(name: string): string {
  return foldName(name.slice(name.lastIndexOf('/') + 1)).replace(/\.git$/, '');
}
