import { WORKBOOK_STATUS_FILTERS } from '../lib/api/requests.ts';
import type { Repository } from '../mirror/upstream/listing.ts';
import { table } from './table.ts';
import {
  allOf,
  fieldNames,
  furtherFields,
  isObject,
  type JsonObject,
  jsonOf,
  missingFields,
  partOf,
  shapeOf,
  tally,
  timeForms,
} from './words.ts';
import { countAbove0, type WorkbookList } from './workbook-list.ts';

const FIELDS = ['type', 'id', 'name', 'display_name', 'integration', 'version', 'status'];
const VERSION_FIELDS = ['id', 'author', 'action', 'created_at', 'message', 'status', 'branch', 'parent'];
const PAGE_FIELDS = ['count', 'next', 'previous', 'results'];

/** Whether there is v1 at all. @param list null where it was not asked for */
export const V1 = table<{ readonly list: WorkbookList | null }>('Workbooks (v1)', {
  'workbooks.v1': {
    question: 'is v1 there?',
    read: ({ list }) => {
      if (list === null) return 'not asked: there is no token';
      return list.pages.length === 0 ? `no: ${shapeOf(list.first)}` : 'yes';
    },
    meaning: ({ list }) => {
      if (list === null) return 'without service.apiToken changes are found from the contents alone';
      if (list.pages.length > 0)
        return 'changes are found from this list; contents are pulled only where it says so';
      if (list.first.status === 404)
        return 'changes are found from the contents alone: choose a schedule that the service can bear';
      return list.first.status === 403
        ? 'the token may not read the list: a pass will fail until it may, or service.apiToken is left out'
        : 'a pass will fail on this: leave service.apiToken out, and changes are found from the contents alone';
    },
  },
});

type AboutRows = WorkbookList & { readonly repositories: readonly Repository[] };

/** Questions about the rows of the list of workbooks. */
export const WORKBOOKS = table<AboutRows>('Workbooks (v1)', {
  'workbooks.branches': {
    question: 'is a workbook listed once on each branch?',
    read: ({ listed }) => {
      const workbooks = Map.groupBy(listed, ({ integration, path }) => JSON.stringify([integration, path]));
      const branches = new Set(
        listed.map(({ integration, branch }) => JSON.stringify([integration, branch])),
      );
      const onSeveral = [...workbooks.values()].filter((rows) =>
        rows.some(({ branch }) => branch !== rows[0]?.branch),
      ).length;
      return onSeveral > 0
        ? `yes: ${onSeveral} of ${workbooks.size} on several of ${branches.size} branches`
        : `not seen: each of ${workbooks.size} on one branch only`;
    },
    meaning: (_, answer) =>
      answer.startsWith('yes')
        ? 'the mirror knows every branch that has a workbook'
        : 'one row a workbook, or one branch each: the mirror compares other branches whole, within fullCheck',
  },
  'workbooks.integration': {
    question: 'what is integration?',
    read: ({ listed, repositories }) => {
      const { byName, byId, unknown } = joined(listed, repositories);
      return `full_name ${byName}, id ${byId}, no listed repository ${unknown}`;
    },
    meaning: ({ listed, repositories }) =>
      joined(listed, repositories).unknown === 0
        ? 'every row is joined with its repository'
        : 'rows of repositories that are not listed are left out',
  },
  'workbooks.without_rows': {
    question: 'repositories without a listed workbook',
    read: ({ listed, repositories }) => {
      const integrations = new Set(listed.map(({ integration }) => integration));
      const without = repositories.filter(
        ({ id, fullName }) => !integrations.has(fullName) && !integrations.has(id),
      );
      return `${without.length} of ${repositories.length}`;
    },
    meaning: 'the mirror takes what these give without a branch, as HEAD',
  },
  'workbooks.ids': {
    question: 'is id integration and name together?',
    read: ({ rows }) =>
      allOf(rows, (row) => row['id'] === `${String(row['integration'])}${String(row['name'])}`),
    meaning: 'the mirror goes by integration, name and branch',
  },
  'workbooks.version_ids': {
    question: 'are version ids 40 hexadecimal digits?',
    read: ({ rows }) => allOf(rows, (row) => /^[0-9a-f]{40}$/i.test(String(partOf(row, 'version')['id']))),
    meaning: 'the mirror takes a version id as any text',
  },
  'workbooks.action': {
    question: 'values of version.action',
    read: ({ rows }) => tally(versionsOf(rows).map(({ action }) => action)),
    meaning: 'the mirror does not use it',
  },
  'workbooks.status': {
    question: 'values of version.status',
    read: ({ rows }) => tally(versionsOf(rows).map(({ status }) => status)),
    meaning: 'it counts as processing unless it reads like finished (success, failed, …), or is missing',
  },
  'workbooks.counters': {
    question: 'counters above 0',
    read: ({ rows }) =>
      WORKBOOK_STATUS_FILTERS.map((counter) => `${counter} ${countAbove0(rows, counter)}`).join(', '),
    meaning: 'what is processing is pulled once more when it has finished',
  },
  'workbooks.created_at': {
    question: 'which form has version.created_at?',
    read: ({ rows }) => timeForms(versionsOf(rows).map((version) => version['created_at'])),
    meaning: 'it becomes the time of the file',
  },
  'workbooks.malformed': {
    question: 'rows that are no objects',
    read: ({ odd }) => String(odd),
    meaning: ({ odd }) =>
      odd === 0 ? 'all rows count' : 'while a row is malformed the mirror believes no absence',
  },
  'workbooks.missing_fields': {
    question: 'are fields missing?',
    read: ({ rows }) =>
      fieldNames([...missingFields(rows, FIELDS), ...missingFields(versionsOf(rows), VERSION_FIELDS)]) ||
      'none',
    meaning: 'id, name, integration, version.id and version.branch are needed, and nothing else',
  },
  'workbooks.extra_fields': {
    question: 'are there further fields?',
    read: ({ rows, first }) =>
      fieldNames([
        ...furtherFields(rows, FIELDS),
        ...furtherFields(versionsOf(rows), VERSION_FIELDS),
        ...furtherFields([jsonOf(first)].filter(isObject), PAGE_FIELDS),
      ]) || 'none',
    meaning: 'the mirror leaves them alone',
  },
});

function versionsOf(rows: readonly JsonObject[]): JsonObject[] {
  return rows.map((row) => partOf(row, 'version'));
}

/** How many integrations are full names of repositories, how many ids, and how many neither. */
function joined(
  listed: WorkbookList['listed'],
  repositories: readonly Repository[],
): { readonly byName: number; readonly byId: number; readonly unknown: number } {
  const integrations = [...new Set(listed.map(({ integration }) => integration))];
  const names = new Set(repositories.map(({ fullName }) => fullName));
  const ids = new Set(repositories.map(({ id }) => id));
  const byName = integrations.filter((each) => names.has(each)).length;
  const byId = integrations.filter((each) => !names.has(each) && ids.has(each)).length;
  return { byName, byId, unknown: integrations.length - byName - byId };
}
