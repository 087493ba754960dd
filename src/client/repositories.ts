import { REPOSITORIES_PATH } from '../api/requests.ts';
import { repositoriesSchema, repositorySchema } from '../api/schemas.ts';
import { MirrorError } from '../model/errors.ts';
import type { Repository } from '../model/service.ts';
import { addressHint, credentialRefused, statusError } from './failures.ts';
import { readJson, wrongKind } from './json.ts';
import type { Answer, Transport } from './transport.ts';

/** The list of repositories. */
export interface RepositoryList {
  readonly repositories: readonly Repository[];
  /** False when rows could not be understood, so that absence proves nothing. */
  readonly isComplete: boolean;
  readonly problems: readonly string[];
}

/**
 * Reads `GET /repos` (service specification, section 4.1).
 * @throws MirrorError `credentials.refused`, `service.*`
 */
export function readRepositories(transport: Transport, signal: AbortSignal): Promise<RepositoryList> {
  return transport.send({ generation: 'current', target: REPOSITORIES_PATH, signal }, readList);
}

async function readList(answer: Answer): Promise<RepositoryList> {
  if (answer.status === 403) throw credentialRefused('current', 403, answer.url);
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
  const rows = repositoriesSchema.safeParse(await readJson(answer));
  if (!rows.success) throw wrongKind(answer, 'JSON that is not a list of repositories', rows.error);
  const repositories = new Map<string, Repository>();
  let malformed = 0;
  for (const row of rows.data) {
    const parsed = repositorySchema.safeParse(row);
    if (!parsed.success) {
      malformed += 1;
      continue;
    }
    const { id, name, full_name: fullName, url, created_at: createdAt } = parsed.data;
    repositories.set(id, { id, name, fullName, url: url ?? null, createdAt: createdAt ?? null });
  }
  return {
    repositories: [...repositories.values()],
    isComplete: malformed === 0,
    problems: malformed === 0 ? [] : [`${malformed} rows of the list of repositories are malformed`],
  };
}
