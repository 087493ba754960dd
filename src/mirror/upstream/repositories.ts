import { REPOSITORIES_PATH } from '../../lib/api/requests.ts';
import { repositoriesSchema } from '../../lib/api/schemas.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Repository } from './listing.ts';
import { addressHint, credentialRefused, statusError } from './failures.ts';
import { digestOfBytes, parseJson, readWhole, wrongKind } from './json.ts';
import { readRows, type RepositoryRows } from './repository-rows.ts';
import { clockProblem, serviceTimeMs } from './service-clock.ts';
import type { Answer, AnswerLimits, Transport } from './transport.ts';

/** The list of repositories. */
export interface RepositoryList {
  readonly repositories: readonly Repository[];
  /** False when rows could not be understood, so that absence proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
  /** What the service's clock said, in milliseconds since the epoch (RFC 9110, section 6.6.1); null if nothing. */
  readonly serviceTimeMs: number | null;
}

/** What the list of repositories came to when it was read last: the same bytes are not understood a second time. */
export interface RepositoryMemory {
  known?: { readonly digest: string; readonly rows: RepositoryRows };
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
  const request = { generation: 'current', judgesKey: true, target: REPOSITORIES_PATH, signal } as const;
  return transport.send(request, (answer) => readList(answer, transport.limits, memory));
}

async function readList(
  answer: Answer,
  limits: AnswerLimits,
  memory: RepositoryMemory,
): Promise<RepositoryList> {
  const theirsMs = serviceTimeMs(answer.headers['date']);
  const clock = clockProblem(theirsMs, Date.now());
  if (answer.status === 403) throw credentialRefused('current', 403, answer.url, [answer.keyPlace]);
  if (answer.status === 404) {
    throw new MirrorError(
      'service.not_found',
      `${answer.url.origin}${answer.url.pathname} does not exist (status 404).`,
      {
        hint: addressHint(answer.url),
      },
    );
  }
  if (answer.status !== 200) throw statusError(answer.status, answer.url, undefined);
  const pieces = await readWhole(answer, limits);
  const digest = digestOfBytes(pieces);
  const read = memory.known?.digest === digest ? memory.known.rows : understand(answer, pieces);
  memory.known = { digest, rows: read };
  const problems = clock === null ? read.problems : [...read.problems, clock];
  return { ...read, problems, serviceTimeMs: theirsMs };
}

function understand(answer: Answer, pieces: readonly Uint8Array[]): RepositoryRows {
  const rows = repositoriesSchema.safeParse(parseJson(answer, pieces));
  if (!rows.success) throw wrongKind(answer, 'JSON that is not a list of repositories', rows.error);
  return readRows(rows.data);
}
