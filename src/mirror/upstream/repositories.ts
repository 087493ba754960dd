import type { z } from 'zod';

import { REPOSITORIES_PATH } from '../../lib/api/requests.ts';
import { repositoriesSchema, repositorySchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type Answer, readList, type Understood, wrongKind } from './answers.ts';
import {
  type Cached,
  malformedRow,
  type MalformedRow,
  malformedSentences,
  type Repository,
} from './listing.ts';
import { addressHint } from './failures.ts';
import type { Transport } from './transport.ts';

/** The repositories that the rows of the list name. */
interface RepositoryRows {
  readonly repositories: readonly Repository[];
  /** False when rows could not be understood or contradict each other, so that absence proves nothing. */
  readonly isComplete: boolean;
  /** A sentence each. */
  readonly problems: readonly string[];
}

/** The list of repositories. */
export interface RepositoryList extends RepositoryRows {
  /** The service's clock, in milliseconds since the epoch (RFC 9110, section 6.6.1); null where it gives no time. */
  readonly serviceTimeMs: number | null;
  /** Null where no cache gave it. */
  readonly cached: Cached | null;
}

/** The list of repositories as it was read last: the same bytes are not parsed a second time. */
export interface RepositoryMemory {
  known?: Understood<RepositoryRows>;
}

/**
 * Reads `GET /repos` (service specification, section 4.1).
 * @param memory what is known of the list; written to. The repositories are the same value as long as the list is the same
 * @throws MirrorError `credentials.refused`, `service.*`, `pass.abandoned`
 */
export function readRepositories(
  transport: Transport,
  signal: AbortSignal,
  memory: RepositoryMemory = {},
): Promise<RepositoryList> {
  const request = { generation: 'current', target: REPOSITORIES_PATH, signal } as const;
  return transport.send(request, async (answer) => {
    const { status, headers, url, cached } = answer;
    const theirsMs = serviceTimeMs(headers['date']);
    const clock = clockProblem(theirsMs, Date.now());
    if (status === 404) throw noRepositories(url);
    const understand = (json: unknown): RepositoryRows => readAnswer(answer, json);
    const rows = await readList('current', answer, transport.limits, memory.known, understand);
    memory.known = rows;
    const problems = clock === null ? rows.problems : [...rows.problems, clock];
    return { ...rows, problems, serviceTimeMs: theirsMs, cached };
  });
}

function noRepositories(url: URL): MirrorError {
  return new MirrorError('service.not_found', `${url.origin}${url.pathname} does not exist (status 404).`, {
    hint: addressHint(url),
  });
}

function readAnswer(answer: Answer, json: unknown): RepositoryRows {
  const rows = repositoriesSchema.safeParse(json);
  if (!rows.success) throw wrongKind(answer, 'JSON that is not a list of repositories', rows.error);
  return readRows(rows.data);
}

/**
 * Reads the rows one by one, so that one bad row hides no other. Of rows that give one id different names none counts:
 * to believe the wrong one would move a tree. Nothing is lost by that, as such a list proves nobody's absence.
 */
export function readRows(rows: readonly unknown[]): RepositoryRows {
  const byId = new Map<string, Repository>();
  const contradicted = new Set<string>();
  const malformed: MalformedRow[] = [];
  for (const [at, row] of rows.entries()) {
    const parsed = repositorySchema.safeParse(row);
    if (!parsed.success) {
      malformed.push(malformedRow(row, parsed.error.issues, at));
      continue;
    }
    const repository = repositoryOf(parsed.data);
    const before = byId.get(repository.id);
    if (before !== undefined && !isSameName(before, repository)) contradicted.add(repository.id);
    if (before === undefined || facts(repository) < facts(before)) byId.set(repository.id, repository);
  }
  return {
    repositories: [...byId.values()].filter(({ id }) => !contradicted.has(id)),
    isComplete: malformed.length === 0 && contradicted.size === 0,
    problems: [
      ...malformedSentences(
        'repositories',
        malformed,
        () => 'what it names is not mirrored, and none counts as gone',
      ),
      ...[...contradicted].map(
        (id) => `the list of repositories gives ${JSON.stringify(id)} several names, of which none counts`,
      ),
    ],
  };
}

function repositoryOf(row: z.infer<typeof repositorySchema>): Repository {
  const { id, name, full_name: fullName, url, created_at: createdAt } = row;
  return { id, name, fullName, url: url ?? null, createdAt: createdAt ?? null };
}

function isSameName(one: Repository, other: Repository): boolean {
  return one.name === other.name && one.fullName === other.fullName;
}

/** Chooses between rows of one name the same one in whatever order they come. */
function facts(repository: Repository): string {
  return JSON.stringify([repository.url, repository.createdAt]);
}

/** A date in HTTP: IMF-fixdate, RFC 850 or asctime (RFC 9110, section 5.6.7); all of them are in UTC. */
const HTTP_DATE = /^[A-Z][a-z]{2,8},? [\w -]+ \d{2}:\d{2}:\d{2} (?:GMT|\d{4})$/;

/** The time that a Date header gives (RFC 9110, section 6.6.1), in milliseconds since the epoch; null if it is none. */
export function serviceTimeMs(header: string | undefined): number | null {
  const text = header?.trim() ?? '';
  const timeMs = HTTP_DATE.test(text) ? Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) : Number.NaN;
  return Number.isNaN(timeMs) ? null : timeMs;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const WORTH_SAYING_MS = 10 * MINUTE_MS;

/** Says that the service's clock and this machine's differ much; rounded, so that it reads the same at every pass. */
export function clockProblem(theirsMs: number | null, oursMs: number): string | null {
  if (theirsMs === null) return null;
  const differenceMs = Math.abs(theirsMs - oursMs);
  if (differenceMs <= WORTH_SAYING_MS) return null;
  return `the service's clock is about ${coarse(differenceMs)} ${theirsMs > oursMs ? 'ahead of' : 'behind'} this machine's`;
}

function coarse(durationMs: number): string {
  if (durationMs < 2 * HOUR_MS) return `${Math.round(durationMs / MINUTE_MS / 10) * 10} minutes`;
  if (durationMs < 2 * DAY_MS) return `${Math.round(durationMs / HOUR_MS)} hours`;
  return `${Math.round(durationMs / DAY_MS)} days`;
}
