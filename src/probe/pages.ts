import { WORKBOOK_STATUS_FILTERS, WORKBOOKS_PATH } from '../lib/api/requests.ts';
import { NO_ANSWER, type ProbeAnswer } from './connection.ts';
import { type Seen, table } from './table.ts';
import { type JsonObject, partOf, shapeOf } from './words.ts';
import { countAbove0, pageOf, type PageSeen, type WorkbookList, workbooksRequest } from './workbook-list.ts';

/** Parameters that may choose a page: the specification shows none. */
const PAGE_PARAMETERS = ['page', 'page_size', 'per_page', 'limit', 'offset', 'limit with offset'] as const;
export type PageParameter = (typeof PAGE_PARAMETERS)[number];

const QUERIES: Readonly<Record<PageParameter, string>> = {
  page: '?page=2',
  page_size: '?page_size=1',
  per_page: '?per_page=1',
  limit: '?limit=1',
  offset: '?offset=1',
  'limit with offset': '?limit=1&offset=1',
};

const CUT_MEANINGS: Readonly<Record<NonNullable<WorkbookList['cut']>, string>> = {
  'too many': 'the mirror reads all pages in each pass; the probe stopped here',
  'not to be followed': 'the mirror cannot follow next: a pass will fail with listing.malformed',
  'answer of another kind':
    'a page that next names is not there: the mirror reads the list again, and believes no absence',
};

/** Questions about the pages and filters of the list of workbooks. */
export const PAGES = table<WorkbookList & { readonly baseUrl: string }>('Workbooks (v1)', {
  'workbooks.pages': {
    question: 'how many rows, on how many pages?',
    read: (list) => `${rowCount(list)} on ${list.pages.length}${list.cut === null ? '' : ` (${list.cut})`}`,
    meaning: ({ cut }) => (cut === null ? 'the mirror reads all pages in each pass' : CUT_MEANINGS[cut]),
  },
  'workbooks.count': {
    question: 'does count say how many rows all pages have?',
    read: (list) => {
      if (list.cut !== null) return 'not known: not all pages were read';
      const counts = [...new Set(list.pages.map(({ count }) => count))];
      const agrees = counts.every((count) => count === rowCount(list));
      return agrees ? 'yes' : `no: ${counts.join(', ')} for ${rowCount(list)}`;
    },
    meaning: (_, answer) =>
      answer.startsWith('no:')
        ? 'absence from this list proves nothing: no target is retired by it'
        : 'the mirror holds count against the rows',
  },
  'workbooks.repeated': {
    question: 'do rows occur twice?',
    read: ({ rows }) => {
      const keys = rows.map((row) => JSON.stringify([row['id'], partOf(row, 'version')['branch']]));
      return String(keys.length - new Set(keys).size);
    },
    meaning: (_, answer) =>
      answer === '0'
        ? 'absence from this list may be believed'
        : 'absence from this list proves nothing: no target is retired by it',
  },
  'workbooks.page_size': {
    question: 'rows on a page when none are asked for',
    read: (list) =>
      list.pages.length > 1
        ? String(list.pages[0]?.rows.length ?? 0)
        : `one page holds all ${rowCount(list)}`,
    meaning: 'the mirror asks for no size and follows next',
  },
  'workbooks.next': {
    question: 'which form has next?',
    read: ({ pages, baseUrl }) =>
      referenceForms(
        baseUrl,
        pages.flatMap(({ next }) => next ?? []),
      ),
    meaning: 'the mirror stays at its own base address: of a next that leads elsewhere only the query counts',
  },
  'workbooks.previous': {
    question: 'which form has previous?',
    read: ({ pages, baseUrl }) =>
      referenceForms(
        baseUrl,
        pages.flatMap(({ previous }) => previous ?? []),
      ),
    meaning: 'the mirror does not use it',
  },
  'workbooks.parameters': {
    question: 'which parameters choose a page?',
    ask: PAGE_PARAMETERS.map((name) => workbooksRequest(QUERIES[name])),
    read: ({ answers, pages }) => parametersAnswer(answers, pages),
    meaning: 'the mirror sends none of them: it follows next',
  },
  'workbooks.beyond': {
    question: 'what comes far beyond the last page?',
    ask: [{ generation: 'v1', target: `${WORKBOOKS_PATH}?page=1000000` }],
    read: ({ answer }) => pageAnswer(answer, ({ rows }) => `200, a page with ${rows.length} rows`),
    meaning: 'pages may shift while they are read: a page that is gone has the list read again',
  },
  'workbooks.filters': {
    question: 'are the filters processing and failure taken?',
    ask: WORKBOOK_STATUS_FILTERS.map((filter) => workbooksRequest(`?status=${filter}`)),
    read: filtersAnswer,
    meaning: 'the mirror reads the counters of the whole list; `workbooks list --status` uses the filters',
  },
  'workbooks.filter_unknown': {
    question: 'what does another value of status do?',
    ask: [workbooksRequest('?status=no-such-status')],
    read: ({ answer, ...list }) =>
      pageAnswer(answer, ({ count }) => `200, ${count} of ${firstCount(list)} rows`),
    meaning: 'the mirror sends none',
  },
  'workbooks.q': {
    question: 'does q filter by name?',
    ask: [workbooksRequest('?q=no-such-workbook-4b1c9e')],
    read: ({ answer, ...list }) =>
      pageAnswer(answer, ({ count }) => {
        if (count < firstCount(list)) return 'yes';
        return firstCount(list) === 0 ? 'too few rows to tell' : 'no';
      }),
    meaning: 'the mirror does not use it',
  },
});

function rowCount({ rows, odd }: WorkbookList): number {
  return rows.length + odd;
}

/** The answer that a page gives, or the shape of what is none. */
function pageAnswer(answer: ProbeAnswer, read: (page: PageSeen) => string): string {
  const page = pageOf(answer);
  return page === null ? shapeOf(answer) : read(page);
}

function firstCount({ pages }: WorkbookList): number {
  return pages[0]?.count ?? 0;
}

/** The form of references to other pages, without what they name. */
export function referenceForms(baseUrl: string, references: readonly string[]): string {
  const forms = new Set(references.map((reference) => referenceForm(reference, new URL(baseUrl))));
  return forms.size === 0 ? 'always null' : [...forms].join('; ');
}

/** Whom a reference leads to says where it stands: `//host/…` begins like a path, and is none (RFC 3986, section 4.2). */
function referenceForm(reference: string, base: URL): string {
  if (reference.startsWith('?')) return 'query only';
  const url = URL.parse(reference, `${base.href}/v1/workbooks`);
  if (url === null) return 'no address';
  const prefix = url.pathname.startsWith(`${base.pathname}/`)
    ? ''
    : ', without the prefix of the base address';
  if (url.host !== base.host) return `absolute, another host${prefix}`;
  if (url.origin !== base.origin) return `absolute, another scheme${prefix}`;
  if (URL.canParse(reference)) return `absolute${prefix}`;
  if (reference.startsWith('//')) return `without a scheme${prefix}`;
  return reference.startsWith('/') ? `path${prefix}` : 'another relative form';
}

function parametersAnswer(answers: readonly ProbeAnswer[], pages: readonly PageSeen[]): string {
  const verdicts = Map.groupBy(PAGE_PARAMETERS, (name, index) => {
    return parameterWorks(name, answers[index] ?? NO_ANSWER, pages);
  });
  if (verdicts.get(null)?.length === PAGE_PARAMETERS.length) return 'too few rows to tell';
  const [works, not] = [true, false].map((verdict) => verdicts.get(verdict)?.join(', ') ?? 'none');
  return `works: ${works}; does nothing: ${not}`;
}

/** The same for the same rows. */
function keyOf(rows: readonly JsonObject[]): string {
  return JSON.stringify(rows);
}

/** A second page that does not exist is refused, or empty, only where the parameter is known. */
function knowsPages({ status }: ProbeAnswer, page: PageSeen | null): boolean {
  return page === null ? status === 404 || status === 400 : page.rows.length === 0;
}

/**
 * Whether an answer shows that a parameter works.
 * @param pages as they were given without it
 * @returns null where nothing can be said
 */
export function parameterWorks(
  name: PageParameter,
  answer: ProbeAnswer,
  pages: readonly PageSeen[],
): boolean | null {
  const [first, second] = pages;
  if (first === undefined || first.count === 0) return null;
  const page = pageOf(answer);
  if (name === 'page' && second === undefined) return knowsPages(answer, page);
  if (first.rows.length < 2) return null;
  if (page === null) return false;
  const secondRow = keyOf(first.rows.slice(1, 2));
  switch (name) {
    case 'page':
      return keyOf(page.rows) === keyOf(second?.rows ?? []);
    case 'offset':
      return keyOf(page.rows.slice(0, 1)) === secondRow;
    case 'limit with offset':
      return keyOf(page.rows) === secondRow;
    case 'page_size':
    case 'per_page':
    case 'limit':
      return page.rows.length === 1;
  }
}

function filtersAnswer({ answers, ...list }: Seen<WorkbookList>): string {
  const said = WORKBOOK_STATUS_FILTERS.map((filter, index) => {
    const shape = pageAnswer(answers[index] ?? NO_ANSWER, ({ count, rows }) => {
      const above = `${countAbove0(rows, filter)} of ${rows.length}`;
      return `${count} of ${firstCount(list)}, counter above 0 on ${above}`;
    });
    return `${filter}: ${shape}`;
  });
  return said.join('; ');
}
