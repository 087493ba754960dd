import { type WorkbookStatusFilter } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { ServiceClient } from '../../mirror/upstream/client.ts';
import type { Repository } from '../../mirror/upstream/listing.ts';
import type { RepositoryList } from '../../mirror/upstream/lists.ts';
import type { WorkbookList } from '../../mirror/upstream/workbooks.ts';
import { withService } from '../installation.ts';
import { createRepository, type NewRepository } from '../create-repository.ts';
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
 * @param request.status only workbooks with this status
 * @throws MirrorError `service.*`, `credentials.refused`, `settings.invalid`
 */
export function listWorkbooks(
  work: TaskWork,
  { status }: { readonly status?: WorkbookStatusFilter | undefined },
): Promise<WorkbookList> {
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
