import { z } from 'zod';

import { REPOSITORIES_PATH } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { beginningOf, oneLine, printable } from '../../lib/text/humanize.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { type Answer, readJson } from '../../mirror/upstream/answers.ts';
import type { ServiceClient } from '../../mirror/upstream/client.ts';
import { addressHint, mayBeDone, statusError, wrongKind } from '../../mirror/upstream/failures.ts';
import { credentialRefused } from '../../mirror/upstream/keyring.ts';
import type { Repository } from '../../mirror/upstream/listing.ts';
import { readRepositoryRows, type RepositoryList } from '../../mirror/upstream/lists.ts';
import type { Transport } from '../../mirror/upstream/transport.ts';
import type { WorkbookList } from '../../mirror/upstream/workbooks.ts';
import { withService } from '../installation.ts';
import type { RequestOf } from './requests.ts';
import type { TaskWork } from './task.ts';

/** `GET /repos`. @throws MirrorError `service.*`, `credentials.refused`, `settings.invalid` */
export function listRepositories(work: TaskWork): Promise<RepositoryList> {
  return withClient(work, (client) => client.repositories(work.signal));
}

/** `POST /repos`. @throws MirrorError as {@link createRepository}, `settings.invalid` */
export function addRepository(work: TaskWork, wanted: NewRepository): Promise<Repository> {
  return withClient(work, ({ transport }) => createRepository(transport, wanted, work.signal));
}

/**
 * `GET /v1/workbooks`, all pages.
 * @throws MirrorError `service.*`, `credentials.refused`, `settings.invalid`
 */
export function listWorkbooks(work: TaskWork, { status }: RequestOf<'workbooks'>): Promise<WorkbookList> {
  if (work.settings.ofService().service.apiToken === undefined) {
    throw new MirrorError(
      'settings.invalid',
      'service.apiToken: the list of workbooks belongs to v1, which needs its own token.',
      { hint: 'Make one in the service under Organization > Personal API Token.' },
    );
  }
  return withClient(work, async (client) => {
    const list = await client.workbooks(work.signal, status);
    if (list !== null) return list;
    const message = 'This installation has no v1: its list of workbooks answers 404.';
    throw new MirrorError('service.not_found', message);
  });
}

function withClient<T>({ settings, emit }: TaskWork, use: (client: ServiceClient) => Promise<T>): Promise<T> {
  return withService(settings.ofService(), use, (event) => {
    // The error says so.
    if (event.name !== 'credentials.refused') emit(event);
  });
}

/** A repository to be created. */
type NewRepository = RequestOf<'repos/create'>;

/** The embedded service's errors; the specification shows no shape (section 7), and others may send something else. */
const errorSchema = z.looseObject({
  error: z.looseObject({ message: z.string() }),
});

/**
 * Creates a repository: `POST /repos`. The request is repeated only if the service has certainly not accepted it.
 * @throws MirrorError `usage.invalid` when the service does not want it, `credentials.refused`, `service.*`, `pass.abandoned`;
 *   its hint says so where the repository may have been created
 */
export async function createRepository(
  transport: Transport,
  repository: NewRepository,
  signal: AbortSignal,
): Promise<Repository> {
  const request = {
    generation: 'current',
    target: REPOSITORIES_PATH,
    body: JSON.stringify(repository),
    signal,
  } as const;
  try {
    const send = (): Promise<Repository> =>
      transport.send(request, async (answer) => {
        if (answer.status !== 200 && answer.status !== 201) throw await refusalOf(answer, repository);
        const [created] = readRepositoryRows([await readJson(answer)]).repositories;
        if (created === undefined) throw wrongKind(answer, 'JSON that is not a repository');
        return created;
      });
    return await send().catch((error: unknown) => {
      // An installation may only know `/repositories`. A missing path created nothing.
      const isMissing = error instanceof MirrorError && error.code === 'service.not_found';
      if (!isMissing || transport.usesOtherName) throw error;
      transport.usesOtherName = true;
      return send();
    });
  } catch (error) {
    if (!(error instanceof MirrorError) || !mayBeDone(error)) throw error;
    const { code, message, cause } = error;
    throw new MirrorError(code, message, {
      cause,
      hint: 'The repository may or may not have been created: look at `repos list` before you try again.',
    });
  }
}

/** Statuses of a refused request (RFC 9110, section 15.5; RFC 4918 for 422). */
const UNWANTED = new Set([400, 409, 413, 415, 422]);

/** The error for an answer that created nothing. */
async function refusalOf(answer: Answer, wanted: NewRepository): Promise<MirrorError> {
  const { status, url } = answer;
  // The service may give no reason.
  const { data } = errorSchema.safeParse(await readJson(answer).catch(() => null));
  if (status === 404 || status === 405) {
    const message = `${url.origin}${url.pathname} creates no repositories (status ${status}).`;
    return new MirrorError('service.not_found', message, { hint: addressHint(url) });
  }
  if (status === 403 && data === undefined) return credentialRefused('current', 403, url);
  if (status !== 403 && !UNWANTED.has(status)) return statusError(status, url, undefined);
  const password = 'password' in wanted ? [wanted.password ?? ''] : [];
  // Cut last: a part of a secret is not known for one.
  const said = printable(oneLine(beginningOf(scrub(data?.error.message ?? 'it does not say why', password))));
  const code = status === 403 ? 'credentials.refused' : 'usage.invalid';
  return new MirrorError(code, `The service created nothing (status ${status}): ${said}`, {
    hint: 'Check the name, or the address and the credentials (--username, --password-file).',
  });
}
