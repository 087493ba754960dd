import { repositorySchema } from '../lib/api/schemas.ts';
import { REPOSITORIES_PATH } from '../lib/api/requests.ts';
import { countNames } from '../mirror/upstream/reference-forms.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import type { Asker } from './asker.ts';
import { type Finding, findingsOf } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';
import { fieldNames, isObject, jsonOf, mediaType, shapeOf, timeForms, yesNo } from './words.ts';

/** What was answered to the questions about the list of repositories. */
export interface RepositoriesSeen {
  readonly list: ProbeAnswer;
  readonly again: ProbeAnswer;
  readonly alias: ProbeAnswer;
  readonly slash: ProbeAnswer;
  readonly head: ProbeAnswer;
}

/** Greatest list that is read. */
export const LIST_BYTES = 64 * 1024 * 1024;

/** Asks for the list of repositories in several ways. @param list the list, which was asked for before */
export async function askForRepositories(asker: Asker, list: ProbeAnswer): Promise<RepositoriesSeen> {
  const whole = { maxBytes: LIST_BYTES };
  return {
    list,
    again: await asker.current(REPOSITORIES_PATH, whole),
    alias: await asker.current('/repositories', whole),
    slash: await asker.current(`${REPOSITORIES_PATH}/`),
    head: await asker.current(REPOSITORIES_PATH, { method: 'HEAD' }),
  };
}

/** The rows of a list of repositories as the mirror would take them. */
export function repositoriesOf(list: ProbeAnswer): Repository[] {
  const rows = jsonOf(list);
  if (!Array.isArray(rows)) return [];
  return rows.flatMap((row) => {
    const parsed = repositorySchema.safeParse(row);
    if (!parsed.success) return [];
    const { id, name, full_name: fullName, url, created_at: createdAt } = parsed.data;
    return [{ id, name, fullName, url: url ?? null, createdAt: createdAt ?? null }];
  });
}

const FIELDS = ['id', 'name', 'full_name', 'url', 'created_at'];
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** What the answers mean. */
export function readRepositories(seen: RepositoriesSeen): Finding[] {
  const rows: unknown = jsonOf(seen.list);
  const find = findingsOf('Repositories');
  if (!Array.isArray(rows)) {
    const meaning = 'the mirror cannot work with this: check the base address';
    return [find('repositories.list', 'is the list an array in JSON?', shapeOf(seen.list), meaning)];
  }
  return [...readRows(rows, seen.list), ...readVariants(seen)];
}

function readRows(rows: readonly unknown[], list: ProbeAnswer): Finding[] {
  const find = findingsOf('Repositories');
  const repositories = repositoriesOf(list);
  const objects = rows.filter(isObject);
  const malformed = rows.length - repositories.length;
  const external = repositories.filter(({ url }) => url !== null).length;
  const further = objects.flatMap((row) => Object.keys(row).filter((name) => !FIELDS.includes(name)));
  const extra = fieldNames(further);
  const missing = fieldNames(objects.flatMap((row) => FIELDS.filter((name) => !(name in row))));
  const shared = sharedNames(repositories);
  return [
    find(
      'repositories.list',
      'how many are listed?',
      `${rows.length} (${external} of Git addresses, ${repositories.length - external} drag-and-drop, ${malformed} malformed)`,
      malformed === 0
        ? 'absence from this list may be believed'
        : 'while a row is malformed the mirror believes no absence, and retires nothing',
    ),
    find(
      'repositories.ids',
      'are the ids UUIDs?',
      allOf(repositories, ({ id }) => UUID.test(id)),
      'the mirror takes an id as any text',
    ),
    find(
      'repositories.names',
      'do full_name, name and url agree as specified?',
      allOf(repositories, agree),
      'the mirror names its folders by full_name, whatever the url says',
    ),
    find(
      'repositories.shared_names',
      'how many share a short name with another?',
      String(shared),
      shared === 0
        ? 'each could be asked for by its short name'
        : 'the mirror never asks for these by their short names',
    ),
    find(
      'repositories.created_at',
      'which form has created_at?',
      timeForms(objects.map((row) => row['created_at'])),
      'any form will do: the mirror only keeps it',
    ),
    find(
      'repositories.missing_fields',
      'are fields missing?',
      missing === '' ? 'none' : missing,
      'id, name and full_name are needed, and nothing else',
    ),
    find(
      'repositories.extra_fields',
      'are there further fields?',
      extra === '' ? 'none' : extra,
      'the mirror leaves them alone',
    ),
  ];
}

function sharedNames(repositories: readonly Repository[]): number {
  const counts = countNames(repositories);
  return repositories.filter(({ name }) => (counts.get(name.toLowerCase()) ?? 0) > 1).length;
}

/** Whether the names are those of section 2.1. */
function agree({ name, fullName, url }: Repository): boolean {
  if (url === null) return fullName === name;
  const last = fullName.slice(fullName.lastIndexOf('/') + 1);
  return url === `https://${fullName}` && last === `${name}.git`;
}

/** `all`, `none`, or how many of them. */
export function allOf<T>(items: readonly T[], isSo: (item: T) => boolean): string {
  const count = items.filter(isSo).length;
  if (items.length === 0) return 'there are none';
  if (count === items.length) return 'all';
  return count === 0 ? 'none' : `${count} of ${items.length}`;
}

function isSameList(one: ProbeAnswer, other: ProbeAnswer): boolean {
  return other.status === 200 && JSON.stringify(jsonOf(one)) === JSON.stringify(jsonOf(other));
}

function readVariants({ list, again, alias, slash, head }: RepositoriesSeen): Finding[] {
  const find = findingsOf('Repositories');
  const aliasAnswer =
    alias.status === 200
      ? isSameList(list, alias)
        ? 'the same list'
        : `something else: ${shapeOf(alias)}`
      : `no: ${shapeOf(alias)}`;
  return [
    find(
      'repositories.order',
      'are two lists in a row the same bytes?',
      yesNo(list.body.equals(again.body)),
      'the mirror goes by ids: any order will do',
    ),
    find('repositories.alias', 'is /repositories the same?', aliasAnswer, 'the mirror asks for /repos'),
    find(
      'repositories.slash',
      'is /repos/ answered?',
      shapeOf(slash),
      'the mirror asks without a slash at the end',
    ),
    find('repositories.head', 'is HEAD answered?', `status ${head.status}`, 'the mirror asks with GET only'),
    find(
      'repositories.media_type',
      'media type of the list',
      mediaType(list.headers['content-type']),
      'the mirror reads whatever is JSON',
    ),
  ];
}
