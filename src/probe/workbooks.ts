import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../lib/api/requests.ts';
import { keyOf, PAGE_STATEMENTS, rowsOf, WORKBOOKS } from './pages.ts';
import type { Statement, Statements } from './statement.ts';
import type { Subject } from './subject.ts';
import { allHold, holds } from './verdict.ts';
import { isObject, type JsonObject, partOf, tally } from './words.ts';

const TEXTS = ['type', 'id', 'name', 'display_name', 'integration'];
const VERSION_TEXTS = ['id', 'author', 'action', 'created_at', 'message', 'status', 'branch'];
const COMMIT = /^[0-9a-f]{40}$/i;
const WHOLE_SECONDS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[+-]\d{2}:\d{2}|Z)$/;

/** Names a field of an object that is missing, not a string, or wrongly empty. */
function textFault(row: JsonObject, fields: readonly string[], mayBeEmpty: readonly string[]): string | null {
  const fault = fields.find((field) => typeof row[field] !== 'string');
  if (fault !== undefined) return `${fault} is not a string`;
  const empty = fields.find((field) => row[field] === '' && !mayBeEmpty.includes(field));
  return empty === undefined ? null : `${empty} is empty`;
}

function isCounter(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

/** A statement about one of the filters. */
function ofFilter(filter: WorkbookStatusFilter): Statement {
  const isAbove = (row: unknown): boolean => {
    const counter = isObject(row) ? partOf(row, 'status')[filter] : undefined;
    return isCounter(counter) && counter > 0;
  };
  return {
    ...WORKBOOKS,
    section: '4.2',
    says: `status=${filter} gives the workbooks whose counter ${filter} is above 0, and no others`,
    check: async (subject) => {
      const all = rowsOf(await subject.pages());
      const filtered = rowsOf(await subject.readPages(`?status=${filter}`));
      allHold(filtered, (row) => (isAbove(row) ? null : 'a row has no such counter above 0'));
      const [keys, shown] = [new Set(all.map(keyOf)), new Set(filtered.map(keyOf))];
      allHold(filtered, (row) => (keys.has(keyOf(row)) ? null : 'a row is not in the whole list'));
      allHold(all.filter(isAbove), (row) => (shown.has(keyOf(row)) ? null : 'a row is missing'));
      return `${filtered.length} of ${all.length} rows`;
    },
    meaning: '`workbooks list --status` relies on it; the mirror reads the counters of the whole list',
  };
}

/** Compares the integrations of workbooks with the repositories (sections 2.1 and 2.2). */
async function checkIntegrations(subject: Subject): Promise<string> {
  const repositories = await subject.repositories();
  const integrations = [...new Set((await subject.workbooks()).map((row) => String(row['integration'])))];
  const names = new Set(repositories.map(({ fullName }) => fullName));
  const ids = new Map(repositories.map((each) => [each.id, each]));
  const byId = integrations.filter((each) => !names.has(each) && ids.has(each));
  const unknown = integrations.filter((each) => !names.has(each) && !ids.has(each)).length;
  const answer = `full_name ${integrations.length - byId.length - unknown}, id ${byId.length}, no listed repository ${unknown}`;
  // The specification does not show the form for a drag-and-drop repository.
  holds(unknown === 0 && byId.every((each) => ids.get(each)?.url === null), answer);
  return answer;
}

async function checkBranches(subject: Subject): Promise<string> {
  const listed = await subject.listed();
  const workbooks = Map.groupBy(listed, ({ integration, path }) => JSON.stringify([integration, path]));
  const branches = new Set(listed.map(({ integration, branch }) => JSON.stringify([integration, branch])));
  const onSeveral = [...workbooks.values()].filter((rows) =>
    rows.some(({ branch }) => branch !== rows[0]?.branch),
  ).length;
  return onSeveral > 0
    ? `yes: ${onSeveral} of ${workbooks.size} on several of ${branches.size} branches`
    : `not seen: each of ${workbooks.size} on one branch only`;
}

/** The fault of a workbook, except in its version (sections 2.2 and 2.4). */
function rowFault(row: JsonObject): string | null {
  const fault = textFault(row, TEXTS, []);
  if (fault !== null) return fault;
  const { type, id, name, display_name: displayName, integration, status } = row;
  if (type !== 'workbook') return 'a type is not workbook';
  if (!/^\/[^/]/.test(String(name))) return 'a name has no single leading /';
  if (displayName !== String(name).split('/').at(-1)) return 'a display_name is not the end of name';
  if (id !== `${String(integration)}${String(name)}`) return 'an id is not integration and name together';
  const isCounted = WORKBOOK_STATUS_FILTERS.every((each) => isObject(status) && isCounter(status[each]));
  return isCounted ? null : 'a counter is not a whole number';
}

/** The fault of the version of a workbook (section 2.3). */
function versionFault(row: JsonObject): string | null {
  const version = partOf(row, 'version');
  const fault = textFault(version, VERSION_TEXTS, ['author', 'message']);
  if (fault !== null) return fault;
  const { id, created_at: createdAt, parent } = version;
  if (!COMMIT.test(String(id))) return 'an id has another form';
  const at = String(createdAt);
  if (!WHOLE_SECONDS.test(at) || Number.isNaN(Date.parse(at))) return 'a created_at has another form';
  if (!isObject(parent)) return 'a parent is not an object';
  if (Object.keys(parent).join(',') !== 'id') return 'a parent has other fields than id';
  return COMMIT.test(String(parent['id'])) ? null : 'the id of a parent is not a commit';
}

/** Statements about the rows of the list of workbooks. */
const ROW_STATEMENTS: Statements = {
  'workbooks.fields': {
    ...WORKBOOKS,
    section: '2.2',
    says: 'a workbook has type workbook, an id of integration and name, a name with a leading /, and whole counters',
    check: async (subject) => allHold(await subject.workbooks(), rowFault),
    meaning: 'the mirror needs id, name and integration',
  },
  'workbooks.version': {
    ...WORKBOOKS,
    section: '2.3',
    says: 'version has an id of 40 hexadecimal digits, a time in whole seconds, a parent with such an id, and five texts',
    check: async (subject) => allHold(await subject.workbooks(), versionFault),
    meaning: 'the mirror needs version.id and version.branch; created_at becomes the time of the file',
  },
  'workbooks.integration': {
    ...WORKBOOKS,
    section: '2.2',
    says: 'integration is the full_name of a listed repository',
    check: checkIntegrations,
    meaning: (answer, outcome) =>
      outcome === 'differs' && !answer.endsWith(' 0') ? 'rows of unlisted repositories are ignored' : null,
  },
  'workbooks.branches': {
    ...WORKBOOKS,
    section: '2.2',
    kind: 'open',
    says: 'is a workbook listed once on each branch?',
    check: checkBranches,
    meaning: (answer) =>
      answer.startsWith('yes')
        ? 'the mirror knows every branch that has a workbook'
        : 'one row a workbook, or one branch each: the mirror compares other branches whole, within fullCheck',
  },
  'workbooks.status': {
    ...WORKBOOKS,
    section: '2.3',
    kind: 'open',
    says: 'which values has version.status?',
    check: async (subject) =>
      tally((await subject.workbooks()).map((row) => partOf(row, 'version')['status'])),
    meaning: () => 'it counts as processing unless it looks finished (success, failed, …), or is missing',
  },
};

/** Statements about the filters and the content of the list. */
const FILTER_STATEMENTS: Statements = {
  'workbooks.processing': ofFilter('processing'),
  'workbooks.failure': ofFilter('failure'),
  'workbooks.in_contents': {
    ...WORKBOOKS,
    section: '4.1',
    says: 'a workbook that is listed on a branch is in the contents of that branch',
    check: async (subject) => {
      const samples = await subject.samples();
      for (const { files, listed } of samples) {
        const missing = listed.filter((path) => !files.has(path)).length;
        holds(missing === 0, `${missing} of ${listed.length} are missing on a branch`);
      }
      return `${samples.length} branches`;
    },
    meaning: 'the mirror asks three times, and then publishes the rest with a warning',
  },
};

/** Statements about v1. */
export const WORKBOOK_STATEMENTS: Statements = {
  ...PAGE_STATEMENTS,
  ...ROW_STATEMENTS,
  ...FILTER_STATEMENTS,
};
