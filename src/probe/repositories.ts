import { repositorySchema } from '../lib/api/schemas.ts';
import { REPOSITORIES_PATH } from '../lib/api/requests.ts';
import { countNames } from '../mirror/upstream/contents.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import type { ProbeAnswer } from './connection.ts';
import { table } from './table.ts';
import {
  allOf,
  fieldNames,
  furtherFields,
  isObject,
  jsonOf,
  type JsonObject,
  mediaType,
  missingFields,
  shapeOf,
  timeForms,
  yesNo,
} from './words.ts';

/** The list of repositories as it came. */
export interface RepositoryList {
  readonly list: ProbeAnswer;
  readonly isArray: boolean;
  readonly rows: readonly unknown[];
  readonly objects: readonly JsonObject[];
  /** The rows as the mirror would take them. */
  readonly repositories: readonly Repository[];
}

/** Greatest list that is read. */
export const LIST_BYTES = 64 * 1024 * 1024;

/** Reads the list of repositories. */
export function readRepositoryList(list: ProbeAnswer): RepositoryList {
  const value = jsonOf(list);
  const rows: readonly unknown[] = Array.isArray(value) ? value : [];
  const repositories = rows.flatMap((row) => {
    const parsed = repositorySchema.safeParse(row);
    if (!parsed.success) return [];
    const { id, name, full_name: fullName, url, created_at: createdAt } = parsed.data;
    return [{ id, name, fullName, url: url ?? null, createdAt: createdAt ?? null }];
  });
  return { list, isArray: Array.isArray(value), rows, objects: rows.filter(isObject), repositories };
}

const FIELDS = ['id', 'name', 'full_name', 'url', 'created_at'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Those of which another repository is called by the short name, too. */
export function withSharedNames(repositories: readonly Repository[]): Repository[] {
  const counts = countNames(repositories);
  return repositories.filter(({ name }) => (counts.get(name.toLowerCase()) ?? 0) > 1);
}

/** Whether the names are those of section 2.1. */
function agree({ name, fullName, url }: Repository): boolean {
  if (url === null) return fullName === name;
  const last = fullName.slice(fullName.lastIndexOf('/') + 1);
  return url === `https://${fullName}` && last === `${name}.git`;
}

function isSameList(one: ProbeAnswer, other: ProbeAnswer): boolean {
  return JSON.stringify(jsonOf(one)) === JSON.stringify(jsonOf(other));
}

/** Where the list is no array. */
export const NO_REPOSITORY_LIST = table<RepositoryList>('Repositories', {
  'repositories.list': {
    question: 'is the list an array in JSON?',
    read: ({ list }) => shapeOf(list),
    meaning: 'the mirror cannot work with this: check the base address',
  },
});

export const REPOSITORIES = table<RepositoryList>('Repositories', {
  'repositories.list': {
    question: 'how many are listed?',
    read: ({ rows, repositories }) => {
      const external = repositories.filter(({ url }) => url !== null).length;
      const dragAndDrop = repositories.length - external;
      const malformed = rows.length - repositories.length;
      return `${rows.length} (${external} of Git addresses, ${dragAndDrop} drag-and-drop, ${malformed} malformed)`;
    },
    meaning: ({ rows, repositories }) =>
      rows.length === repositories.length
        ? 'absence from this list may be believed'
        : 'while a row is malformed the mirror believes no absence, and retires nothing',
  },
  'repositories.ids': {
    question: 'are the ids UUIDs?',
    read: ({ repositories }) => allOf(repositories, ({ id }) => UUID.test(id)),
    meaning: 'the mirror takes an id as any text',
  },
  'repositories.names': {
    question: 'do full_name, name and url agree as specified?',
    read: ({ repositories }) => allOf(repositories, agree),
    meaning: 'the mirror names its folders by full_name, whatever the url says',
  },
  'repositories.shared_names': {
    question: 'how many share a short name with another?',
    read: ({ repositories }) => String(withSharedNames(repositories).length),
    meaning: (_, answer) =>
      answer === '0'
        ? 'each could be asked for by its short name'
        : 'the mirror never asks for these by their short names',
  },
  'repositories.created_at': {
    question: 'which form has created_at?',
    read: ({ objects }) => timeForms(objects.map((row) => row['created_at'])),
    meaning: 'any form will do: the mirror only keeps it',
  },
  'repositories.missing_fields': {
    question: 'are fields missing?',
    read: ({ objects }) => fieldNames(missingFields(objects, FIELDS)) || 'none',
    meaning: 'id, name and full_name are needed, and nothing else',
  },
  'repositories.extra_fields': {
    question: 'are there further fields?',
    read: ({ objects }) => fieldNames(furtherFields(objects, FIELDS)) || 'none',
    meaning: 'the mirror leaves them alone',
  },
  'repositories.order': {
    question: 'are two lists in a row the same bytes?',
    ask: [{ target: REPOSITORIES_PATH, maxBytes: LIST_BYTES }],
    read: ({ list, answer }) => yesNo(list.body.equals(answer.body)),
    meaning: 'the mirror goes by ids: any order will do',
  },
  'repositories.alias': {
    question: 'is /repositories the same?',
    ask: [{ target: '/repositories', maxBytes: LIST_BYTES }],
    read: ({ list, answer }) => {
      if (answer.status !== 200) return `no: ${shapeOf(answer)}`;
      return isSameList(list, answer) ? 'the same list' : `something else: ${shapeOf(answer)}`;
    },
    meaning: 'the mirror asks for /repos',
  },
  'repositories.slash': {
    question: 'is /repos/ answered?',
    ask: [{ target: `${REPOSITORIES_PATH}/` }],
    read: ({ answer }) => shapeOf(answer),
    meaning: 'the mirror asks without a slash at the end',
  },
  'repositories.head': {
    question: 'is HEAD answered?',
    ask: [{ target: REPOSITORIES_PATH, method: 'HEAD' }],
    read: ({ answer }) => `status ${answer.status}`,
    meaning: 'the mirror asks with GET only',
  },
  'repositories.media_type': {
    question: 'media type of the list',
    read: ({ list }) => mediaType(list.headers['content-type']),
    meaning: 'the mirror reads whatever is JSON',
  },
});
