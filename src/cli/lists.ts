import type { WorkbookStatusFilter } from '../lib/api/requests.ts';
import type { RepositoryList } from '../mirror/upstream/repositories.ts';
import type { WorkbookList } from '../mirror/upstream/workbooks.ts';
import type { SettingsFor } from '../config/schema.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import type { EventSink, MirrorEvent } from '../mirror/pass/events.ts';
import { counted } from '../lib/text/humanize.ts';
import { joinLines, type TerminalText } from '../lib/text/terminal-text.ts';
import { connect } from '../daemon/start/installation.ts';
import { table, tellEvent } from './output.ts';
import { abortOnSignal } from '../lib/process/signals.ts';

type ServiceSettings = SettingsFor<'service'>;

/** `GET /repos`. @throws MirrorError `service.*`, `credentials.refused` */
export function listRepositories(settings: ServiceSettings): Promise<RepositoryList> {
  return withClient(settings, (client, signal) => client.repositories(signal));
}

/** `GET /v1/workbooks`, all pages. @throws MirrorError `service.*`, `credentials.refused`, `settings.invalid` */
export function listWorkbooks(
  settings: ServiceSettings,
  filter?: WorkbookStatusFilter,
): Promise<WorkbookList> {
  if (settings.service.apiToken === undefined) {
    throw new MirrorError(
      'settings.invalid',
      'service.apiToken: the list of workbooks belongs to v1, which needs its own token.',
      {
        hint: 'Make one in the service under Organization > Personal API Token.',
      },
    );
  }
  return withClient(settings, async (client, signal) => {
    const list = await client.workbooks(signal, filter);
    if (list !== null) return list;
    throw new MirrorError(
      'service.not_found',
      'This installation has no v1: its list of workbooks answers 404.',
    );
  });
}

/** Opens the way to the service for one piece of work; a signal abandons it. */
export async function withClient<T>(
  settings: ServiceSettings,
  work: (client: ReturnType<typeof connect>, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const refusals: MirrorEvent[] = [];
  const emit: EventSink = (event) => {
    if (event.name === 'credentials.refused') refusals.push(event);
    else tellEvent(event);
  };
  const client = connect(settings, { form: null }, emit, { oneShot: true });
  const { signal, stopListening } = abortOnSignal();
  try {
    const result = await work(client, signal);
    // Another key was let in; where none was, the error says so.
    refusals.forEach(tellEvent);
    return result;
  } finally {
    stopListening();
    await client.close();
  }
}

/** The repositories for a person. */
export function describeRepositories({
  repositories,
  problems,
}: Pick<RepositoryList, 'repositories' | 'problems'>): TerminalText {
  const rows = repositories.map((repository) => [
    repository.fullName,
    repository.url === null ? 'drag-and-drop' : 'Git',
    repository.createdAt ?? '-',
    repository.id,
  ]);
  const body = rows.length === 0 ? [] : [table(['FULL NAME', 'KIND', 'CREATED', 'ID'], rows), ''];
  return joinLines([...body, `${counted(rows.length, 'repository', 'repositories')}.`, ...problems]);
}

/** The workbooks for a person. */
export function describeWorkbooks({ rows, problems }: WorkbookList): TerminalText {
  const lines = rows.map((row) => [
    row.id,
    row.branch,
    row.versionId.slice(0, 10),
    row.createdAt ?? '-',
    row.author ?? '-',
    String(row.processing),
    String(row.failure),
  ]);
  const headings = ['WORKBOOK', 'BRANCH', 'VERSION', 'CREATED', 'AUTHOR', 'PROCESSING', 'FAILURE'];
  const body = lines.length === 0 ? [] : [table(headings, lines), ''];
  return joinLines([...body, `${counted(lines.length, 'workbook')}.`, ...problems]);
}
