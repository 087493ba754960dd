import type { Finding } from './table.ts';
import { type Find, findingsOf } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';
import { type JsonObject, partOf, shapeOf } from './words.ts';
import {
  PAGE_PARAMETERS,
  type PageParameter,
  pageOf,
  type PageSeen,
  type WorkbooksSeen,
} from './workbooks.ts';

/** What the answers about pages and filters mean. @param baseUrl the service's base address, to say where `next` leads */
export function readPages(seen: WorkbooksSeen, baseUrl: string): Finding[] {
  const find = findingsOf('Workbooks (v1)');
  return [
    ...readAllPages(find, seen),
    ...readReferences(find, seen, baseUrl),
    ...readParameters(find, seen),
    ...readFilters(find, seen),
  ];
}

function readAllPages(find: Find, { pages, cut }: WorkbooksSeen): Finding[] {
  const rows = pages.reduce((sum, page) => sum + page.rows.length + page.odd, 0);
  const counts = new Set(pages.map(({ count }) => count));
  const isWhole = cut === null;
  const agrees = counts.size === 1 && counts.has(rows);
  const keys = pages
    .flatMap((page) => page.rows)
    .map((row) => JSON.stringify([row['id'], partOf(row, 'version')['branch']]));
  const repeated = keys.length - new Set(keys).size;
  return [
    find(
      'workbooks.pages',
      'how many rows, on how many pages?',
      `${rows} on ${pages.length}${isWhole ? '' : ` (${cut})`}`,
      pagesMeaning(cut),
    ),
    find(
      'workbooks.count',
      'does count say how many rows all pages have?',
      isWhole
        ? agrees
          ? 'yes'
          : `no: ${[...counts].join(', ')} for ${rows}`
        : 'not known: not all pages were read',
      agrees || !isWhole
        ? 'the mirror holds count against the rows'
        : 'absence from this list proves nothing: no target is retired by it',
    ),
    find(
      'workbooks.repeated',
      'do rows occur twice?',
      String(repeated),
      repeated === 0
        ? 'absence from this list may be believed'
        : 'absence from this list proves nothing: no target is retired by it',
    ),
  ];
}

function readReferences(find: Find, { pages }: WorkbooksSeen, baseUrl: string): Finding[] {
  const rows = pages.reduce((sum, page) => sum + page.rows.length + page.odd, 0);
  return [
    find(
      'workbooks.page_size',
      'rows on a page when none are asked for',
      pages.length > 1 ? String(pages[0]?.rows.length ?? 0) : `one page holds all ${rows}`,
      'the mirror asks for no size and follows next',
    ),
    find(
      'workbooks.next',
      'which form has next?',
      referenceForms(
        pages.flatMap(({ next }) => next ?? []),
        baseUrl,
      ),
      'the mirror stays at its own base address: of a next that leads elsewhere only the query counts',
    ),
    find(
      'workbooks.previous',
      'which form has previous?',
      referenceForms(
        pages.flatMap(({ previous }) => previous ?? []),
        baseUrl,
      ),
      'the mirror does not use it',
    ),
  ];
}

function pagesMeaning(cut: WorkbooksSeen['cut']): string {
  switch (cut) {
    case null:
      return 'the mirror reads all pages in each pass';
    case 'too many':
      return 'the mirror reads all pages in each pass; the probe stopped here';
    case 'not to be followed':
      return 'the mirror cannot follow next: a pass will fail with listing.malformed';
    case 'answer of another kind':
      return 'a page that next names is not there: the mirror reads the list again, and believes no absence';
  }
}

/** The form of references to other pages, without what they name. */
export function referenceForms(references: readonly string[], baseUrl: string): string {
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
    case 'limit_offset':
      return keyOf(page.rows) === secondRow;
    case 'page_size':
    case 'per_page':
    case 'limit':
      return page.rows.length === 1;
  }
}

function readParameters(find: Find, { parameters, pages, beyond }: WorkbooksSeen): Finding[] {
  const verdicts = PAGE_PARAMETERS.flatMap((name) => {
    const answer = parameters.get(name);
    const works = answer === undefined ? null : parameterWorks(name, answer, pages);
    const shown = name === 'limit_offset' ? 'limit with offset' : name;
    return works === null ? [] : [{ shown, works }];
  });
  const working = verdicts.filter(({ works }) => works).map(({ shown }) => shown);
  const others = verdicts.filter(({ works }) => !works).map(({ shown }) => shown);
  const known = `works: ${working.join(', ') || 'none'}; does nothing: ${others.join(', ') || 'none'}`;
  const beyondPage = beyond === null ? null : pageOf(beyond);
  const beyondAnswer =
    beyond === null
      ? 'not asked'
      : beyondPage === null
        ? shapeOf(beyond)
        : `${beyond.status}, a page with ${beyondPage.rows.length} rows`;
  return [
    find(
      'workbooks.parameters',
      'which parameters choose a page?',
      verdicts.length === 0 ? 'too few rows to tell' : known,
      'the mirror sends none of them: it follows next',
    ),
    find(
      'workbooks.beyond',
      'what comes far beyond the last page?',
      beyondAnswer,
      'pages may shift while they are read: a page that is gone has the list read again',
    ),
  ];
}

function readFilters(find: Find, { filters, pages }: WorkbooksSeen): Finding[] {
  const total = pages[0]?.count ?? 0;
  const accepted = (['processing', 'failure'] as const).map((filter) => {
    const answer = filters.get(filter);
    const page = answer === undefined ? null : pageOf(answer);
    if (page === null) return `${filter}: ${answer === undefined ? 'not asked' : shapeOf(answer)}`;
    const above = page.rows.filter((row) => Number(partOf(row, 'status')[filter] ?? 0) > 0).length;
    return `${filter}: ${page.count} of ${total}, counter above 0 on ${above} of ${page.rows.length}`;
  });
  const unknown = filters.get('unknown');
  const unknownPage = unknown === undefined ? null : pageOf(unknown);
  const q = filters.get('q');
  const qPage = q === undefined ? null : pageOf(q);
  return [
    find(
      'workbooks.filters',
      'are the filters processing and failure taken?',
      accepted.join('; '),
      'the mirror reads the counters of the whole list; `workbooks list --status` uses the filters',
    ),
    find(
      'workbooks.filter_unknown',
      'what does another value of status do?',
      unknown === undefined
        ? 'not asked'
        : unknownPage === null
          ? shapeOf(unknown)
          : `200, ${unknownPage.count} of ${total} rows`,
      'the mirror sends none',
    ),
    find(
      'workbooks.q',
      'does q filter by name?',
      q === undefined
        ? 'not asked'
        : qPage === null
          ? shapeOf(q)
          : qPage.count < total
            ? 'yes'
            : total === 0
              ? 'too few rows to tell'
              : 'no',
      'the mirror does not use it',
    ),
  ];
}
