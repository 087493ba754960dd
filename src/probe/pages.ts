import { isDeepStrictEqual } from 'node:util';

import { workbookSchema } from '../lib/api/schemas.ts';
import type { Entry } from './statement.ts';
import { rowsOf, type Subject } from './subject.ts';
import { given, holds } from './verdict.ts';

/** Identifies a workbook on a branch. */
export function keyOf(row: unknown): string {
  const { data } = workbookSchema.safeParse(row);
  return JSON.stringify(data === undefined ? row : [data.id, data.version.branch]);
}

async function checkPrevious(subject: Subject): Promise<string> {
  const { pages } = await subject.pages();
  holds((pages[0]?.previous ?? null) === null, 'previous of the first page is not null');
  const rest = pages.slice(1, 1 + subject.options.sample);
  for (const [index, { address, previous }] of rest.entries()) {
    const target = URL.parse(previous ?? '', address.href);
    holds(target?.origin === address.origin, 'previous leads to another origin');
    const { results } = await subject.page(target);
    holds(isDeepStrictEqual(results, pages[index]?.results), 'previous leads to another page');
  }
  return rest.length === 0 ? 'there is one page only' : `${rest.length} followed back`;
}

const CUT_MEANINGS: Readonly<Record<string, string>> = {
  'too many': 'the mirror reads all pages in each pass; the probe stopped here',
  'not to be followed': 'the mirror cannot follow next: a pass will fail with listing.malformed',
  'answer of another kind':
    'a page that next names is missing: the mirror reads the list again, and believes no absence',
};

/** Statements about the list of workbooks and its pages. */
export const PAGE_STATEMENTS: Readonly<Record<string, Entry>> = {
  'workbooks.v1': {
    section: '4.2',
    says: 'GET /v1/workbooks answers 200 with a page in JSON',
    check: async (subject) => {
      await subject.pages();
      return 'yes';
    },
    meaning: (answer, outcome) => {
      if (outcome === 'not tried') return 'without service.apiToken changes are found only from the contents';
      if (outcome === 'holds') return 'changes are found from this list; only changed contents are pulled';
      if (answer.startsWith('404'))
        return 'changes are found only from the contents: choose a schedule that the service can handle';
      return answer.startsWith('403')
        ? 'the token may not read the list: passes fail until it may, or until service.apiToken is removed'
        : 'passes fail on this: without service.apiToken, changes are found only from the contents';
    },
  },
  'workbooks.pages': {
    says: 'the pages can be followed to the last one; next and previous are strings or null, and each row is an object',
    check: async (subject) => {
      const list = await subject.pages();
      const rows = rowsOf(list);
      const answer = `${rows.length} on ${list.pages.length}`;
      holds(list.cut === null || list.cut === 'too many', `${answer} (${list.cut ?? ''})`);
      const odd = rows.filter((row) => typeof row !== 'object' || row === null).length;
      holds(odd === 0, `${answer}, ${odd} malformed`);
      const references = list.pages.flatMap(({ next, previous }) => [next, previous]);
      const isNeither = references.some((value) => value === undefined || value === '');
      holds(!isNeither, `${answer}, next or previous is neither`);
      return list.cut === null ? answer : `${answer} (${list.cut})`;
    },
    meaning: (answer) => {
      if (answer.endsWith('malformed')) return 'while a row is malformed the mirror believes no absence';
      return Object.entries(CUT_MEANINGS).find(([cut]) => answer.includes(cut))?.[1] ?? null;
    },
  },
  'workbooks.count': {
    says: 'count is the number of rows on all pages together, and no row occurs twice',
    check: async (subject) => {
      const list = await subject.pages();
      given(list.cut === null, 'not all pages were read');
      const keys = rowsOf(list).map(keyOf);
      const counts = [...new Set(list.pages.map(({ count }) => count))];
      const repeated = keys.length - new Set(keys).size;
      const isCounted = counts.every((count) => count === keys.length);
      holds(isCounted && repeated === 0, `no: ${counts.join(', ')} for ${keys.length}, ${repeated} repeated`);
      return 'yes';
    },
    meaning: 'absence from this list proves nothing: no target is retired by it',
  },
  'workbooks.next': {
    says: 'next leads to a page at the base address',
    check: async (subject) => {
      const { pages } = await subject.pages();
      const targets = pages.flatMap(({ address, next }) =>
        typeof next === 'string' ? [URL.parse(next, address.href)?.href] : [],
      );
      const base = `${new URL(subject.options.baseUrl).href}/`;
      const isElsewhere = targets.some((href) => href?.startsWith(base) !== true);
      holds(!isElsewhere, 'another address');
      return targets.length === 0 ? 'always null' : 'the base address';
    },
    meaning: 'the mirror stays at its own base address: if next leads elsewhere, it uses only the query',
  },
  'workbooks.previous': {
    says: 'previous of the first page is null; that of every other one leads to the page before it',
    check: checkPrevious,
  },
};
