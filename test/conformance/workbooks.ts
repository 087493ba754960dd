import { isObject, type JsonObject, partOf } from '../../src/probe/words.ts';
import type { PageSeen, Subject } from './subject.ts';
import { allHold, holds, NotApplicable, NotMet } from './verdict.ts';
import type { Statement } from './statement.ts';

/** What the specification says of the list of workbooks (sections 2.2 to 2.5, 3 and 4.2). */

const COMMIT = /^[0-9a-f]{40}$/i;
const WHOLE_SECONDS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[+-]\d{2}:\d{2}|Z)$/;

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Says which field of an object is missing, no string or empty. */
function textFault(
  row: JsonObject,
  fields: readonly string[],
  mayBeEmpty: readonly string[] = [],
): string | null {
  for (const field of fields) {
    const value = row[field];
    if (typeof value !== 'string') return `${field} is no string`;
    if (value === '' && !mayBeEmpty.includes(field)) return `${field} is empty`;
  }
  return null;
}

function isCounter(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

/** The same for the same workbook on the same branch. */
function keyOf(row: unknown): string {
  return isObject(row) ? JSON.stringify([row['id'], partOf(row, 'version')['branch']]) : JSON.stringify(row);
}

function rowsOf(pages: readonly PageSeen[]): readonly unknown[] {
  return pages.flatMap(({ rows }) => rows);
}

/** A statement about every row. */
function ofRows(
  id: string,
  section: string,
  statement: string,
  fault: (row: JsonObject) => string | null,
): Statement {
  return {
    id,
    section,
    statement,
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const rows = await subject.workbooks();
      allHold(rows, fault);
      return `${rows.length} rows`;
    },
  };
}

/** A statement about one of the filters. */
function ofFilter(filter: 'processing' | 'failure'): Statement {
  return {
    id: `filter-${filter}`,
    section: '4.2',
    statement: `status=${filter} gives the workbooks whose counter \`${filter}\` is above 0, and no others`,
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const all = rowsOf(await subject.pages());
      const filtered = rowsOf(await subject[filter]());
      const counter = (row: unknown): unknown => (isObject(row) ? partOf(row, 'status')[filter] : undefined);
      const isAbove = (row: unknown): boolean => isCounter(counter(row)) && counter(row) !== 0;
      allHold(filtered, (row) => (isAbove(row) ? null : 'a row has no such counter above 0'));
      const keys = new Set(all.map(keyOf));
      allHold(filtered, (row) => (keys.has(keyOf(row)) ? null : 'a row is not in the whole list'));
      const shown = new Set(filtered.map(keyOf));
      allHold(all.filter(isAbove), (row) => (shown.has(keyOf(row)) ? null : 'a row is missing'));
      return `${filtered.length} of ${all.length} rows`;
    },
  };
}

const ROW_STATEMENTS: readonly Statement[] = [
  ofRows(
    'workbooks-fields',
    '2.2',
    'every workbook has type, id, name, display_name and integration as strings, version and status as objects',
    (row) => {
      const fault = textFault(row, ['type', 'id', 'name', 'display_name', 'integration']);
      if (fault !== null) return fault;
      return ['version', 'status'].every((field) => isObject(row[field]))
        ? null
        : 'version or status is no object';
    },
  ),
  ofRows('workbooks-type', '2.2', 'type is the constant `workbook`', (row) =>
    row['type'] === 'workbook' ? null : 'a type is another',
  ),
  ofRows('workbooks-id', '2.2', 'id is <integration>/<file_path>', (row) =>
    row['id'] === `${String(row['integration'])}${String(row['name'])}`
      ? null
      : 'an id is put together otherwise',
  ),
  ofRows('workbooks-name', '2.2', 'name is the path inside the repository with a leading /', ({ name }) =>
    isText(name) && /^\/[^/]/.test(name) ? null : 'a name has no single leading /',
  ),
  ofRows('workbooks-display-name', '2.2', 'display_name is the file name without directories', (row) =>
    row['display_name'] === String(row['name']).split('/').at(-1) ? null : 'a display_name is another',
  ),
  ofRows(
    'version-fields',
    '2.3',
    'version has id, author, action, created_at, message, status and branch as strings',
    (row) => {
      const fields = ['id', 'author', 'action', 'created_at', 'message', 'status', 'branch'];
      return textFault(partOf(row, 'version'), fields, ['author', 'message']);
    },
  ),
  ofRows('version-id', '2.3', 'version.id has 40 hexadecimal digits', (row) =>
    COMMIT.test(String(partOf(row, 'version')['id'])) ? null : 'a version.id has another form',
  ),
  ofRows(
    'version-created-at',
    '2.3',
    'version.created_at is an ISO 8601 time with an offset and no fraction',
    (row) => {
      const at = partOf(row, 'version')['created_at'];
      return typeof at === 'string' && WHOLE_SECONDS.test(at) && !Number.isNaN(Date.parse(at))
        ? null
        : 'a version.created_at has another form';
    },
  ),
  ofRows('version-parent', '2.3', 'version.parent is an object with the one field id, a commit', (row) => {
    const { parent } = partOf(row, 'version');
    if (!isObject(parent)) return 'a parent is no object';
    if (Object.keys(parent).join(',') !== 'id') return 'a parent has other fields than id';
    const { id } = parent;
    return typeof id === 'string' && COMMIT.test(id) ? null : 'the id of a parent is no commit';
  }),
  ofRows('counters', '2.4', 'status has the integers processing and failure', (row) => {
    const status = partOf(row, 'status');
    return isCounter(status['processing']) && isCounter(status['failure'])
      ? null
      : 'a counter is no whole number';
  }),
];

const PAGE_STATEMENTS: readonly Statement[] = [
  {
    id: 'workbooks-list',
    section: '4.2',
    statement: 'GET /v1/workbooks answers 200 with a page in JSON; its pages can be followed to the last one',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const pages = await subject.pages();
      allHold(rowsOf(pages), (row) => (isObject(row) ? null : 'a row is no object'));
      return `${pages.length} pages, ${rowsOf(pages).length} rows`;
    },
  },
  {
    id: 'page-envelope',
    section: '2.5',
    statement: 'a page has count as an integer, next and previous as a string or null, results as an array',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const isReference = (value: unknown): boolean => value === null || isText(value);
      const pages = await subject.pages();
      allHold(pages, ({ body }) => {
        if (!isCounter(body['count'])) return 'count is no whole number';
        return isReference(body['next']) && isReference(body['previous'])
          ? null
          : 'next or previous is neither';
      });
      return `${pages.length} pages`;
    },
  },
  {
    id: 'page-count',
    section: '2.5',
    statement: 'count is the number of rows on all pages together, and the same on each',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const pages = await subject.pages();
      const rows = rowsOf(pages).length;
      allHold(pages, ({ body }) =>
        body['count'] === rows ? null : `count is ${String(body['count'])}, rows are ${rows}`,
      );
      return `${rows} rows`;
    },
  },
  {
    id: 'page-rows-once',
    section: '2.5',
    statement: 'no row is on the pages twice',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const keys = rowsOf(await subject.pages()).map(keyOf);
      holds(new Set(keys).size === keys.length, `${keys.length - new Set(keys).size} rows occur again`);
      return `${keys.length} rows`;
    },
  },
  {
    id: 'page-previous',
    section: '2.5',
    statement: 'previous of the first page is null; that of every other one leads to the page before it',
    kind: 'required',
    needs: ['token'],
    check: checkPrevious,
  },
  {
    id: 'page-sizes',
    section: '8',
    statement: 'rows on a page when none are asked for',
    kind: 'observed',
    needs: ['token'],
    check: async (subject) => {
      const pages = await subject.pages();
      return pages.length === 1 ? 'one page holds all' : `${pages[0]?.rows.length ?? 0} rows`;
    },
  },
];

async function checkPrevious(subject: Subject): Promise<string> {
  const pages = await subject.pages();
  holds((pages[0]?.body['previous'] ?? null) === null, 'previous of the first page is not null');
  const rest = pages.slice(1, 1 + subject.options.sample);
  for (const [index, { address, body }] of rest.entries()) {
    const previous = typeof body['previous'] === 'string' ? URL.parse(body['previous'], address.href) : null;
    holds(previous !== null, 'previous of a later page is null');
    const back = await subject.page(previous);
    holds(JSON.stringify(back.rows) === JSON.stringify(pages[index]?.rows), 'previous leads to another page');
  }
  return rest.length === 0 ? 'there is one page only' : `${rest.length} followed back`;
}

/** How many repositories' full names are the integrations of workbooks (sections 2.1 and 2.2). */
async function checkJoin(subject: Subject): Promise<string> {
  const rows = await subject.workbooks();
  const known = await subject.known();
  const names = new Set(known.map(({ fullName }) => fullName));
  const ids = new Set(known.map(({ id }) => id));
  // Of a drag-and-drop repository the form of the identifier is not shown; an id of another form is one too.
  const external = new Set(known.flatMap(({ id, url }) => (url === null ? [] : [id])));
  allHold(rows, ({ integration }) => {
    const text = String(integration);
    if (names.has(text)) return null;
    if (external.has(text)) return 'an integration is the id of a Git repository, not its full_name';
    return ids.has(text) ? null : 'an integration is no repository of the list';
  });
  const integrations = new Set(rows.map(({ integration }) => integration));
  return `${integrations.size} integrations, ${known.length} repositories`;
}

export const WORKBOOK_STATEMENTS: readonly Statement[] = [
  ...PAGE_STATEMENTS,
  ...ROW_STATEMENTS,
  ofFilter('processing'),
  ofFilter('failure'),
  {
    id: 'filter-unknown',
    section: '4.2',
    statement: 'the answer to another value of status',
    kind: 'observed',
    needs: ['token'],
    check: async (subject) => `status ${(await subject.v1('/v1/workbooks?status=no-such-status')).status}`,
  },
  {
    id: 'workbooks-join',
    section: '2.2',
    statement: 'integration of a workbook is the full_name of a repository that GET /repos lists',
    kind: 'required',
    needs: ['token'],
    check: checkJoin,
  },
  {
    id: 'workbooks-branches',
    section: '2.2',
    statement: 'whether a workbook is listed once, or once on each branch',
    kind: 'observed',
    needs: ['token'],
    check: async (subject) => {
      const rows = await subject.workbooks();
      return new Set(rows.map(({ id }) => id)).size < rows.length
        ? 'once on each branch'
        : 'no workbook on two branches';
    },
  },
  {
    id: 'workbooks-in-contents',
    section: '4.1',
    statement: 'a workbook that is listed on a branch is in the contents of that branch at its path',
    kind: 'required',
    needs: ['token'],
    check: async (subject) => {
      const samples = (await subject.samples()).filter(({ listed }) => listed.length > 0);
      if (samples.length === 0)
        throw new NotApplicable('no branch with listed workbooks could be downloaded');
      for (const { files, listed } of samples) {
        const missing = listed.filter((path) => !files.has(path));
        if (missing.length > 0)
          throw new NotMet(`${missing.length} of ${listed.length} are missing on a branch`);
      }
      return `${samples.length} branches`;
    },
  },
];
