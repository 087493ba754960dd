import { REPOSITORIES_PATH } from '../api/requests.ts';
import { repositoriesSchema } from '../api/schemas.ts';
import { MirrorError } from '../model/errors.ts';
import type { Repository } from '../model/service.ts';
import { addressHint, credentialRefused, statusError } from './failures.ts';
import { readJson, wrongKind } from './json.ts';
import { readRows } from './repository-rows.ts';
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

/**
 * Reads `GET /repos` (service specification, section 4.1).
 * @throws MirrorError `credentials.refused`, `service.*`, `pass.abandoned`
 */
export function readRepositories(transport: Transport, signal: AbortSignal): Promise<RepositoryList> {
  const request = { generation: 'current', judgesKey: true, target: REPOSITORIES_PATH, signal } as const;
  return transport.send(request, (answer) => readList(answer, transport.limits));
}

async function readList(answer: Answer, limits: AnswerLimits): Promise<RepositoryList> {
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
  const rows = repositoriesSchema.safeParse(await readJson(answer, limits));
  if (!rows.success) throw wrongKind(answer, 'JSON that is not a list of repositories', rows.error);
  const read = readRows(rows.data);
  const problems = clock === null ? read.problems : [...read.problems, clock];
  return { ...read, problems, serviceTimeMs: theirsMs };
}
