import { isObject, type JsonObject } from '../../src/probe/words.ts';
import { allHold, given, holds } from './verdict.ts';
import type { Statement } from './statement.ts';
import { jsonOf, type Subject } from './subject.ts';

/** What the specification says of the list of repositories (sections 2.1, 4.1 and 5.1). */

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const GIT_ADDRESS = /^https:\/\/[^/\s@]+\/\S+\.git$/;
const MICROSECONDS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}\+00:00$/;

async function objects(subject: Subject): Promise<readonly JsonObject[]> {
  const rows = await subject.repositories();
  given(rows.length > 0, 'there is no repository');
  return rows.filter(isObject);
}

async function ofKind(subject: Subject, isExternal: boolean): Promise<readonly JsonObject[]> {
  const rows = (await objects(subject)).filter(({ url }) => (typeof url === 'string') === isExternal);
  given(
    rows.length > 0,
    `there is no ${isExternal ? 'repository of an external Git address' : 'drag-and-drop repository'}`,
  );
  return rows;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isInstant(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value));
}

/** What is wrong with the fields of a repository, or null (section 2.1). */
export function repositoryFault(row: unknown): string | null {
  if (!isObject(row)) return 'a row is no object';
  for (const field of ['id', 'name', 'full_name'] as const) {
    if (!isText(row[field])) return `${field} is no string`;
  }
  if (row['url'] !== null && !isText(row['url'])) return 'url is neither a string nor null';
  return isText(row['created_at']) ? null : 'created_at is no string';
}

/** What is wrong with the names of an external repository, or null. */
export function externalNamesFault(row: JsonObject): string | null {
  const url = String(row['url']);
  if (row['full_name'] !== url.replace(/^https:\/\//, '')) return 'full_name is not url without its scheme';
  const last = url.slice(url.lastIndexOf('/') + 1).replace(/\.git$/, '');
  return row['name'] === last ? null : 'name is not the last segment of url without .git';
}

export const REPOSITORY_STATEMENTS: readonly Statement[] = [
  {
    id: 'repos-list',
    section: '4.1',
    statement: 'GET /repos answers 200 with an array in JSON',
    kind: 'required',
    check: async (subject) => `${(await subject.repositories()).length} repositories`,
  },
  {
    id: 'repos-fields',
    section: '2.1',
    statement: 'every repository has id, name, full_name, url and created_at, with their types',
    kind: 'required',
    check: async (subject) => {
      const rows = await subject.repositories();
      given(rows.length > 0, 'there is no repository');
      allHold(rows, (row) => {
        const fault = repositoryFault(row);
        return fault === 'created_at is no string' ? null : fault;
      });
      return `${rows.length} rows`;
    },
  },
  {
    id: 'repos-id',
    section: '2.1',
    statement: 'id has the format of a UUID',
    kind: 'required',
    check: async (subject) => {
      allHold(await objects(subject), ({ id }) => (UUID.test(String(id)) ? null : 'an id is no UUID'));
      return 'all';
    },
  },
  {
    id: 'repos-unique',
    section: '2.1',
    statement: 'no two repositories have one id or one full_name',
    kind: 'required',
    check: async (subject) => {
      const rows = await objects(subject);
      for (const field of ['id', 'full_name'] as const) {
        holds(new Set(rows.map((row) => row[field])).size === rows.length, `a ${field} occurs twice`);
      }
      return 'all';
    },
  },
  {
    id: 'repos-drag-and-drop-names',
    section: '2.1',
    statement: 'a repository whose url is null has its name as full_name',
    kind: 'required',
    check: async (subject) => {
      const rows = await ofKind(subject, false);
      allHold(rows, ({ name, full_name: full }) => (full === name ? null : 'full_name is not name'));
      return `${rows.length} rows`;
    },
  },
  {
    id: 'repos-external-url',
    section: '2.1',
    statement: 'url has the form https://<host>/<path>.git, without a credential in it',
    kind: 'required',
    check: async (subject) => {
      const rows = await ofKind(subject, true);
      allHold(rows, ({ url }) => (GIT_ADDRESS.test(String(url)) ? null : 'a url has another form'));
      return `${rows.length} rows`;
    },
  },
  {
    id: 'repos-external-names',
    section: '2.1',
    statement: 'full_name is the url without its scheme, name its last segment without .git',
    kind: 'required',
    check: async (subject) => {
      const rows = await ofKind(subject, true);
      allHold(rows, externalNamesFault);
      return `${rows.length} rows`;
    },
  },
  {
    id: 'repos-created-at',
    section: '2.1',
    statement: 'created_at is an ISO 8601 time with microseconds and the offset +00:00',
    kind: 'required',
    check: async (subject) => {
      allHold(await objects(subject), ({ created_at: at }) =>
        typeof at === 'string' && MICROSECONDS.test(at) && isInstant(at)
          ? null
          : 'a created_at has another form',
      );
      return 'all';
    },
  },
  {
    id: 'repos-names-shared',
    section: '4.1',
    statement: 'short names that several repositories have',
    kind: 'observed',
    check: async (subject) => {
      const names = (await objects(subject)).map(({ name }) => name);
      return `${names.length - new Set(names).size} repeated`;
    },
  },
  {
    id: 'repos-alias',
    section: '4.1',
    statement: 'where /repositories answers 200, it answers as /repos does',
    kind: 'optional',
    check: async (subject) => {
      const reply = await subject.current('/repositories');
      given(reply.status === 200, `status ${reply.status}`);
      const same = JSON.stringify(jsonOf(reply)) === JSON.stringify(await subject.repositories());
      holds(same, 'it gives something else');
      return 'the same';
    },
  },
];
