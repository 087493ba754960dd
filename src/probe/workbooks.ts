import { z } from 'zod';

import type { WorkbookStatusFilter } from '../lib/api/requests.ts';
import { workbookSchema } from '../lib/api/schemas.ts';
import { keyOf, PAGE_STATEMENTS } from './pages.ts';
import { type Entry, statementsOf } from './statement.ts';
import { rowsOf, type Subject } from './subject.ts';
import { allHold, holds } from './verdict.ts';
import { faultIn, tally } from './words.ts';

const anyText = z.string('is not a string');
const text = anyText.min(1, 'is empty');
const commit = anyText.regex(/^[0-9a-f]{40}$/i, 'is not a commit');
const counter = z.int('is not a whole number').min(0, 'is negative');

/** A workbook of sections 2.2 and 2.4, without its version. */
const WORKBOOK = z
  .looseObject({
    type: z.literal('workbook', 'is not workbook'),
    id: text,
    name: text.regex(/^\/[^/]/, 'has no single leading /'),
    display_name: text,
    integration: text,
    status: z.looseObject({ processing: counter, failure: counter }, 'is not an object'),
  })
  .refine(({ display_name: displayName, name }) => displayName === name.split('/').at(-1), {
    path: ['display_name'],
    error: 'is not the end of name',
  })
  .refine(({ id, integration, name }) => id === integration + name, {
    path: ['id'],
    error: 'is not integration and name together',
  });

/** A workbook with a version of section 2.3. */
const VERSION = z.looseObject({
  version: z.looseObject(
    {
      id: commit,
      author: anyText,
      action: text,
      created_at: z.iso.datetime({ precision: 0, offset: true, error: 'is not a time in whole seconds' }),
      message: anyText,
      status: text,
      branch: text,
      parent: z.strictObject({ id: commit }, 'is not an object with id only'),
    },
    'is not an object',
  ),
});

/** A statement about one of the filters. */
function ofFilter(filter: WorkbookStatusFilter): Entry {
  const isAbove = (row: unknown): boolean => (workbookSchema.safeParse(row).data?.status?.[filter] ?? 0) > 0;
  return {
    section: '4.2',
    says: `status=${filter} gives the workbooks whose counter ${filter} is above 0, and no others`,
    check: async (subject) => {
      const all = rowsOf(await subject.pages());
      const expected = new Set(all.filter(isAbove).map(keyOf));
      const shown = new Set(rowsOf(await subject.readPages(`?status=${filter}`)).map(keyOf));
      const extra = [...shown].filter((key) => !expected.has(key)).length;
      const missing = [...expected].filter((key) => !shown.has(key)).length;
      holds(extra === 0 && missing === 0, `${extra} rows too many, ${missing} missing`);
      return `${shown.size} of ${all.length} rows`;
    },
    meaning: '`workbooks list --status` relies on it; the mirror reads the counters of the whole list',
  };
}

/** Compares the integrations of workbooks with the repositories (sections 2.1 and 2.2). */
async function checkIntegrations(subject: Subject): Promise<string> {
  const repositories = await subject.repositories();
  const integrations = new Set((await subject.workbooks()).map(({ integration }) => integration));
  const byName = repositories.filter(({ fullName }) => integrations.has(fullName));
  const byId = repositories.filter(({ id }) => integrations.has(id));
  const known = new Set(repositories.flatMap(({ fullName, id }) => [fullName, id]));
  const unknown = [...integrations].filter((each) => !known.has(each)).length;
  const answer = `full_name ${byName.length}, id ${byId.length}, no listed repository ${unknown}`;
  // The specification does not show the form for a drag-and-drop repository.
  holds(unknown === 0 && byId.every(({ url }) => url === null), answer);
  return answer;
}

async function checkBranches(subject: Subject): Promise<string> {
  const listed = await subject.workbooks();
  const workbooks = Map.groupBy(listed, ({ id }) => id);
  const branches = new Set(listed.map(({ integration, version }) => `${integration} ${version.branch}`));
  const onSeveral = [...workbooks.values()].filter(
    (rows) => new Set(rows.map(({ version }) => version.branch)).size > 1,
  ).length;
  return onSeveral > 0
    ? `yes: ${onSeveral} of ${workbooks.size} on several of ${branches.size} branches`
    : `not seen: each of ${workbooks.size} on one branch only`;
}

/** Statements about v1. */
export const WORKBOOK_STATEMENTS = statementsOf(
  { group: 'Workbooks (v1)', section: '2.5', kind: 'required' },
  {
    ...PAGE_STATEMENTS,
    'workbooks.fields': {
      section: '2.2',
      says: 'a workbook has type workbook, an id of integration and name, a name with a leading /, and whole counters',
      check: async (subject) => allHold(await subject.rows(), (row) => faultIn(WORKBOOK, row)),
      meaning: 'the mirror needs id, name and integration',
    },
    'workbooks.version': {
      section: '2.3',
      says: 'version has an id of 40 hexadecimal digits, a time in whole seconds, a parent with such an id, and five texts',
      check: async (subject) => allHold(await subject.rows(), (row) => faultIn(VERSION, row)),
      meaning: 'the mirror needs version.id and version.branch; created_at becomes the time of the file',
    },
    'workbooks.integration': {
      section: '2.2',
      says: 'integration is the full_name of a listed repository',
      check: checkIntegrations,
      meaning: (answer, outcome) =>
        outcome === 'differs' && !answer.endsWith(' 0') ? 'rows of unlisted repositories are ignored' : null,
    },
    'workbooks.branches': {
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
      section: '2.3',
      kind: 'open',
      says: 'which values has version.status?',
      check: async (subject) => tally((await subject.workbooks()).map(({ version }) => version.status)),
      meaning: () => 'it counts as processing unless it looks finished (success, failed, …), or is missing',
    },
    'workbooks.processing': ofFilter('processing'),
    'workbooks.failure': ofFilter('failure'),
    'workbooks.in_contents': {
      section: '4.1',
      says: 'a workbook that is listed on a branch is in the contents of that branch',
      check: async (subject) => {
        await subject.rows();
        const samples = await subject.samples();
        for (const { files, listed } of samples) {
          const missing = listed.filter((path) => !files.has(path)).length;
          holds(missing === 0, `${missing} of ${listed.length} are missing on a branch`);
        }
        return `${samples.length} branches`;
      },
      meaning: 'the mirror asks three times, and then publishes the rest with a warning',
    },
  },
);
