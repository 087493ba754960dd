import type { WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { unlessAborted } from '../../lib/concurrency/concurrency.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { readRepositories, type RepositoryList, type RepositoryMemory } from './lists.ts';
import { olderOf } from './answers.ts';
import { knownBranch, type Listing, type Repository, type UnreadRows, type WorkbookRow } from './listing.ts';
import { Contents, countNames } from './contents.ts';
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
    this.nameCounts = countNames(repositories);
    this.#joined = workbooks && joinRows(this.#shard, repositories, workbooks.rows, this.#joined);
    const cached = olderOf(list.cached, workbooks?.cached ?? null);
    return {
      address: this.transport.address,
      takenAtMs: Math.min(beganAtMs, cached?.asOfMs ?? beganAtMs),
      cached,
      serviceTimeMs: list.serviceTimeMs,
      repositories,
      repositoriesComplete: list.isComplete,
      workbooks: this.#joined?.rows ?? null,
      unread: unreadRows(repositories, workbooks),
      workbooksComplete: workbooks?.isComplete ?? false,
      // They are stored and shown, and a row may repeat a key that it was sent.
      problems: [...list.problems, ...(workbooks?.problems ?? []), ...(this.#joined?.problems ?? [])].map(
        (problem) => scrub(problem, this.transport.keyring.values()),
      ),
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
      hint: 'If this persists, the next poll goes on without it and compares contents. If v1 was switched off for good, leave service.apiToken out.',
    },
  );
}

/** The repositories in malformed rows, which may give full names or ids, as good rows may. */
function unreadRows(repositories: readonly Repository[], workbooks: WorkbookList | null): UnreadRows {
  const named = new Set(workbooks?.malformed.map(({ repository }) => repository));
  const hidden = repositories.filter(({ id, fullName }) => named.has(id) || named.has(fullName));
  return { repositories: new Set(hidden.map(({ fullName }) => fullName)), isAnywhere: named.has(null) };
}

/** Rows of this shard, each with the full name of its repository and our name of its branch. */
interface JoinedRows {
  /** The lists that they were made from. */
  readonly from: { readonly repositories: readonly Repository[]; readonly rows: readonly WorkbookRow[] };
  readonly rows: readonly WorkbookRow[];
  /** A sentence for each repository that is not listed. */
  readonly problems: readonly string[];
}

/**
 * Joins rows to repositories by full name, in whichever case if only one can be meant, or, if an installation sends that instead, by id.
 * Rows that name no listed repository stay: they are reported.
 * @param last the result of the last call: the same lists return the same value
 */
export function joinRows(
  shard: Shard | null,
  repositories: readonly Repository[],
  rows: readonly WorkbookRow[],
  last: JoinedRows | null,
): JoinedRows {
  if (last?.from.repositories === repositories && last.from.rows === rows) return last;
  const named = new Map([
    ...repositories.map((repository) => [repository.id, repository] as const),
    ...repositories.map((repository) => [repository.fullName, repository] as const),
  ]);
  const folded = Map.groupBy(repositories, ({ fullName }) => fullName.toLowerCase());
  const likelyNamed = (name: string): Repository | undefined => {
    const [repository, ...others] = folded.get(name.toLowerCase()) ?? [];
    return others.length === 0 ? repository : undefined;
  };
  // Several repositories may have one name: rows of that name are about each of them.
  const own = new Set(repositories.filter(({ id }) => owns(shard, id)).map(({ fullName }) => fullName));
  const unlisted = new Set<string>();
  const joined = rows.flatMap((row) => {
    const repository = named.get(row.repository) ?? likelyNamed(row.repository);
    if (repository === undefined) unlisted.add(row.repository);
    else if (!own.has(repository.fullName)) return [];
    const branch = knownBranch(row.branch);
    const fullName = repository?.fullName ?? row.repository;
    return row.repository === fullName && row.branch === branch
      ? row
      : { ...row, repository: fullName, branch };
  });
  const problems = [...unlisted].map(
    (name) => `the list of workbooks names the repository ${JSON.stringify(name)}, which is not listed`,
  );
  return { from: { repositories, rows }, rows: joined, problems };
}
