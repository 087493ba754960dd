import type { Statements } from './statement.ts';
import { LIST_BYTES } from './subject.ts';
import { isObject, type JsonObject, jsonOf, shapeOf } from './words.ts';
import { allHold, given, holds } from './verdict.ts';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** An ISO 8601 time with microseconds and the offset +00:00. */
const MICROSECONDS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}\+00:00$/;
const GIT_ADDRESS = /^https:\/\/[^/\s@]+\/\S+\.git$/;

/** The fault of a repository (section 2.1). */
function rowFault(row: unknown): string | null {
  if (!isObject(row)) return 'a row is not an object';
  for (const field of ['id', 'name', 'full_name', 'created_at']) {
    const value = row[field];
    if (typeof value !== 'string' || value === '') return `${field} is not a string`;
  }
  const { id, url, created_at: createdAt } = row;
  if (url !== null && (typeof url !== 'string' || url === '')) return 'url is neither a string nor null';
  if (!UUID.test(String(id))) return 'an id is not a UUID';
  const at = String(createdAt);
  if (!MICROSECONDS.test(at) || Number.isNaN(Date.parse(at))) return 'a created_at has another form';
  return namesFault(row);
}

function namesFault({ name, full_name: fullName, url }: JsonObject): string | null {
  if (typeof url !== 'string') return fullName === name ? null : 'full_name is not name';
  if (!GIT_ADDRESS.test(url)) return 'a url has another form than https://<host>/<path>.git';
  if (`https://${String(fullName)}` !== url) return 'full_name is not url without its scheme';
  const last = url.slice(url.lastIndexOf('/') + 1).replace(/\.git$/, '');
  return name === last ? null : 'name is not the last segment of url without .git';
}

const REPOSITORIES = { group: 'Repositories', section: '2.1', kind: 'required' } as const;

/** Statements about the list of repositories. */
export const REPOSITORY_STATEMENTS: Statements = {
  'repositories.list': {
    ...REPOSITORIES,
    section: '4.1',
    says: 'GET /repos answers 200 with an array in JSON',
    check: async (subject) => {
      const rows = await subject.repositoryRows();
      const repositories = await subject.repositories();
      const external = repositories.filter(({ url }) => url !== null).length;
      const malformed = rows.length - repositories.length;
      const name = subject.usesOtherName ? ', as /repositories: there is no /repos' : '';
      return `${rows.length} (${external} of Git addresses, ${repositories.length - external} drag-and-drop, ${malformed} malformed)${name}`;
    },
    meaning: (answer, outcome) => {
      if (outcome === 'differs') return 'the mirror cannot work with this: check the base address';
      if (answer.endsWith('/repos')) return 'the mirror detects that, and requests /repositories';
      return answer.includes(' 0 malformed')
        ? null
        : 'while a row is malformed the mirror believes no absence, and retires nothing';
    },
  },
  'repositories.fields': {
    ...REPOSITORIES,
    says: 'a repository has a UUID as id, a url or null, names that follow from it, and created_at with microseconds and +00:00',
    check: async (subject) => allHold(await subject.repositoryRows(), rowFault),
    meaning: 'the mirror needs only id, name and full_name, for the names of its folders',
  },
  'repositories.unique': {
    ...REPOSITORIES,
    says: 'no two repositories have one id or one full_name',
    check: async (subject) => {
      const rows = (await subject.repositoryRows()).filter(isObject);
      for (const field of ['id', 'full_name'])
        holds(new Set(rows.map((row) => row[field])).size === rows.length, `${field} occurs twice`);
      return 'all';
    },
  },
  'repositories.alias': {
    ...REPOSITORIES,
    section: '4.1',
    kind: 'optional',
    says: 'where /repositories is answered, it is answered as /repos',
    check: async (subject) => {
      const answer = await subject.ask({ target: '/repositories', maxBytes: LIST_BYTES });
      given(answer.status === 200, shapeOf(answer));
      const same = JSON.stringify(jsonOf(answer)) === JSON.stringify(await subject.repositoryRows());
      holds(same, `something else: ${shapeOf(answer)}`);
      return 'the same list';
    },
  },
};
