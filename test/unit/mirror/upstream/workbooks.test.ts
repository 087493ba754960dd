import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import type { TransportRequest } from '../../../../src/mirror/upstream/transport.ts';
import type { ListTransport } from '../../../../src/mirror/upstream/lists.ts';
import type { Answer } from '../../../../src/mirror/upstream/answers.ts';
import {
  nextPageUrl,
  readWorkbooks,
  type WorkbookList,
  type WorkbookMemory,
} from '../../../../src/mirror/upstream/workbooks.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';

const LIST = 'https://service.example/api/v1/workbooks';

/** The response of the service at an address. */
interface Place {
  readonly body: string;
  readonly etag?: string;
}

type Places = ReadonlyMap<string, Place>;

interface Asked {
  readonly href: string;
  readonly status: number;
}

/** A transport to a service of texts at addresses. */
function transportTo(placesNow: () => Places) {
  const asked: Asked[] = [];
  const answerOf = (href: string, headers: TransportRequest['headers']): Omit<Answer, 'body'> & Place => {
    const { body = 'nothing', etag } = placesNow().get(href) ?? {};
    const common = { url: new URL(href), cached: null, patience: { timeoutMs: 10_000 }, body } as const;
    if (body === 'nothing') return { ...common, status: 404, headers: {} };
    const isSame = body === 'unasked 304' || (etag !== undefined && headers?.['if-none-match'] === etag);
    return { ...common, status: isSame ? 304 : 200, headers: etag === undefined ? {} : { etag } };
  };
  const transport: ListTransport = {
    address: 'https://service.example/api',
    keyring: { hasKey: () => true },
    send: async (request, consume) => {
      await Promise.resolve();
      const href =
        request.target instanceof URL ? request.target.href : `https://service.example/api${request.target}`;
      const { body, ...answer } = answerOf(href, request.headers);
      asked.push({ href, status: answer.status });
      return consume({ ...answer, body: Readable.from(answer.status === 304 ? [] : [Buffer.from(body)]) });
    },
  };
  return { transport, asked };
}

function workbook(index: number, version = 1): Record<string, unknown> {
  const path = `folder/${index}.xlsx`;
  return {
    id: `Accounting/${path}`,
    name: `/${path}`,
    integration: 'Accounting',
    version: { id: `v${version}`, branch: 'main', author: 'Ada', message: 'a change\n', status: 'success' },
    status: { processing: 0, failure: 0 },
  };
}

interface PageFacts {
  readonly rows: readonly unknown[];
  readonly count: number;
  readonly next: string | null;
}

function placesOf(pages: readonly PageFacts[], etags = false): Places {
  return new Map(
    pages.map(({ rows, count, next }, index) => {
      const body = JSON.stringify({ count, next, previous: null, results: rows });
      const etag = `"${createHash('sha256').update(body).digest('hex')}"`;
      const href = index === 0 ? LIST : `${LIST}?page=${index + 1}`;
      return [href, etags ? { body, etag } : { body }];
    }),
  );
}

/** A whole list in pages of two rows. */
function wholeList(workbooks: number, version = 1, etags = false): Places {
  const pages = Math.max(1, Math.ceil(workbooks / 2));
  return placesOf(
    Array.from({ length: pages }, (_, at) => ({
      rows: [at * 2, at * 2 + 1]
        .filter((index) => index < workbooks)
        .map((index) => workbook(index, version)),
      count: workbooks,
      next: at + 1 < pages ? `/api/v1/workbooks?page=${at + 2}` : null,
    })),
    etags,
  );
}

function read(transport: ListTransport, memory?: WorkbookMemory): Promise<WorkbookList | null> {
  return readWorkbooks(transport, new AbortController().signal, undefined, memory);
}

describe('a list of workbooks that is read again', () => {
  it('is the same object as long as it has not changed', async () => {
    const { transport } = transportTo(() => wholeList(9));
    const memory: WorkbookMemory = {};
    const one = await read(transport, memory);
    const other = await read(transport, memory);
    expect(other?.rows).toHaveLength(9);
    expect(other?.rows).toBe(one?.rows);
  });

  it('keeps the beginning of a long message, which every manifest repeats', async () => {
    const row = { ...workbook(1), version: { id: 'v1', branch: 'main', message: 'm'.repeat(70_000) } };
    const { transport } = transportTo(() => placesOf([{ rows: [row], count: 1, next: null }]));
    expect((await read(transport))?.rows[0]?.message).toBe('m'.repeat(1000));
  });

  it('keeps the rows of the pages that are the same', async () => {
    let places = wholeList(9);
    const { transport } = transportTo(() => places);
    const memory: WorkbookMemory = {};
    const one = await read(transport, memory);
    places = new Map([...places, [`${LIST}?page=3`, wholeList(9, 2).get(`${LIST}?page=3`) ?? { body: '' }]]);
    const other = await read(transport, memory);
    const versions = other?.rows.map(({ versionId }) => versionId);
    expect(versions?.join(' ')).toBe('v1 v1 v1 v1 v2 v2 v1 v1 v1');
    const kept = other?.rows.flatMap((row, index) => (row === one?.rows[index] ? [index] : []));
    expect(kept).toEqual([0, 1, 2, 3, 6, 7, 8]);
  });

  it('is not taken for unchanged by an unasked "not modified"', async () => {
    let places = wholeList(1, 1);
    const { transport } = transportTo(() => places);
    const memory: WorkbookMemory = {};
    await read(transport, memory);
    places = new Map([...places.keys()].map((href) => [href, { body: 'unasked 304' }]));
    await expect(read(transport, memory)).rejects.toMatchObject({ code: 'service.wrong_kind' });
  });

  it('is not sent again if the service has strong entity tags', async () => {
    const { transport, asked } = transportTo(() => wholeList(9, 1, true));
    const memory: WorkbookMemory = {};
    const one = await read(transport, memory);
    asked.length = 0;
    expect((await read(transport, memory))?.rows).toBe(one?.rows);
    expect(asked.map(({ status }) => status)).toEqual([304, 304, 304, 304, 304]);
  });

  it('is read again if only weak entity tags say that it is unchanged', async () => {
    const tagged = (version: number): Places =>
      new Map([...wholeList(3, version)].map(([href, place]) => [href, { ...place, etag: 'W/"same"' }]));
    let places = tagged(1);
    const { transport } = transportTo(() => places);
    const memory: WorkbookMemory = {};
    await read(transport, memory);
    places = tagged(2);
    const versions = (await read(transport, memory))?.rows.map(({ versionId }) => versionId);
    expect(versions).toEqual(['v2', 'v2', 'v2']);
  });
});

describe('a list whose pages do not agree', () => {
  const [a, b, c] = [workbook(0), workbook(1), workbook(2)];

  it.each<[string, readonly (readonly unknown[])[], readonly number[], string | null]>([
    ['nothing, and says so', [[]], [0], null],
    ['as many rows as every page says', [[a, b], [c]], [3, 3], null],
    ['counts that differ', [[a, b], [c]], [3, 4], 'the count changed from page to page'],
    ['too few rows', [[a]], [2], 'the count says 2, the pages hold 1 rows'],
    ['too many rows', [[a, b]], [1], 'the count says 1, the pages hold 2 rows'],
    ['the only version of a workbook twice', [[a, a]], [2], 'a row occurs twice'],
    ['the first of two versions twice', [[a, workbook(0, 2), a]], [3], 'a row occurs twice'],
    ['two versions of a workbook', [[a, workbook(0, 2)]], [2], null],
  ])('is complete only if no row can be missing: %s', async (_what, pages, counts, doubt) => {
    const places = placesOf(
      pages.map((rows, at) => {
        const next = at + 1 < pages.length ? `?page=${at + 2}` : null;
        return { rows, count: counts[at] ?? 0, next };
      }),
    );
    expect(await read(transportTo(() => places).transport)).toMatchObject({
      isComplete: doubt === null,
      problems: doubt === null ? [] : [`in the list of workbooks ${doubt}`],
    });
  });

  it.each([
    [3, 3],
    [2, 1],
    [4, 4],
  ])(
    'names the repositories of rows that are on two pages, whatever the counts say: %i, %i',
    async (...counts) => {
      const [first, second] = counts;
      const places = placesOf([
        { rows: [a, b], count: first, next: '?page=2' },
        { rows: [b], count: second, next: null },
      ]);
      const list = await read(transportTo(() => places).transport);
      expect(list?.repeated).toEqual(new Set(['Accounting']));
    },
  );

  it('counts malformed rows, and is then incomplete', async () => {
    const ids = [
      ['Sales/b', '/b'],
      ['Sales/b', '/c'],
      ['Salesb', 'b'],
      ['/b', '/b'],
    ];
    const rows = [a, null, ...ids.map(([id, name]) => ({ id, name }))];
    const places = placesOf([{ rows, count: 6, next: null }]);
    const list = await read(transportTo(() => places).transport);
    expect(list?.isComplete).toBe(false);
    const names = list?.malformed.map(({ repository }) => repository);
    expect(names).toEqual([null, 'Sales', null, null, null]);
    expect(list?.problems.slice(0, 1)).toEqual([
      'in the list of workbooks, row 2 of its answer is no object: it does not tell its repository, so that the list verifies no target',
    ]);
  });

  it('is refused if a page is missing each time', async () => {
    const places = placesOf([{ rows: [a], count: 2, next: '?page=2' }]);
    await expect(read(transportTo(() => places).transport)).rejects.toMatchObject({
      code: 'listing.inconsistent',
      message: expect.stringContaining('a page was gone while it was read') as string,
    });
  });
});

describe('the pages of a list', () => {
  /** The first page, and others at these numbers, each with a link to the next one. */
  const linked = (...numbers: readonly number[]): Places =>
    new Map(
      ['', ...numbers.map((number) => `?page=${number}`)].slice(0, 3).map((query, at) => {
        const next = numbers[at] === undefined ? null : `?page=${numbers[at]}`;
        return [LIST + query, { body: JSON.stringify({ count: 3, next, results: [workbook(at)] }) }];
      }),
    );

  it('are requested in the order of their links', async () => {
    const { transport, asked } = transportTo(() => linked(7, 2));
    expect(await read(transport)).toMatchObject({ isComplete: true });
    expect(asked.map(({ href }) => href)).toEqual([LIST, `${LIST}?page=7`, `${LIST}?page=2`]);
  });

  it('may form a cycle, which fails', async () => {
    await expect(read(transportTo(() => linked(2, 3, 2)).transport)).rejects.toMatchObject({
      code: 'listing.malformed',
      message: 'The pages of the list of workbooks lead in a circle.',
    });
  });

  it('do not count as known at a new address', async () => {
    let places = linked(2);
    const { transport } = transportTo(() => places);
    const memory: WorkbookMemory = {};
    const one = await read(transport, memory);
    places = linked(3);
    const other = await read(transport, memory);
    expect(other?.rows).toEqual(one?.rows);
    expect(other?.rows).not.toBe(one?.rows);
  });
});

const soundRow = fc.tuple(fc.nat(60), fc.constantFrom(1, 1, 1, 2)).map((facts) => workbook(...facts));
/** A row, mostly valid; some are malformed, some are duplicates. */
const someRow = fc.oneof(
  { weight: 12, arbitrary: soundRow },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(null, 7, {}, { id: 'x' }) },
);

/** A list of a service with any faults: wrong counts, missing ends, cycles. */
const someList = fc
  .record({
    pages: fc.array(fc.array(someRow, { maxLength: 4 }), { minLength: 1, maxLength: 9 }),
    wrongCount: fc.constantFrom(0, 0, 0, 0, 1, -1),
    oddPage: fc.option(fc.nat(8)),
    end: fc.constantFrom('ends', 'ends', 'ends', 'missing', 'circle', 'skips', 'nonsense'),
    etags: fc.boolean(),
  })
  .map(({ pages, wrongCount, oddPage, end, etags }) => {
    const count = Math.max(0, pages.flat().length + wrongCount);
    const last: Record<string, string> = { missing: '?page=99', circle: '?page=2', nonsense: 'http://[' };
    return placesOf(
      pages.map((rows, at) => {
        const skips = end === 'skips' && at === Math.floor(pages.length / 2) ? 1 : 0;
        const further = at + 2 + skips <= pages.length ? `?page=${at + 2 + skips}` : null;
        return { rows, count: at === oddPage ? count + 1 : count, next: further ?? last[end] ?? null };
      }),
      etags,
    );
  });

/** A list and its next state: most pages stay the same. */
const someLife = fc
  .tuple(someList, fc.array(fc.tuple(someList, fc.array(fc.nat(9), { maxLength: 3 })), { maxLength: 3 }))
  .map(([first, changes]) => {
    const lives = [first];
    for (const [other, at] of changes) {
      const former = lives.at(-1) ?? first;
      const replaced = [...other].filter((_, index) => at.includes(index));
      lives.push(at.length === 3 ? other : new Map([...former, ...replaced]));
    }
    return lives;
  });

/** The result of a reading, without the identity of values. */
async function outcome(list: Promise<WorkbookList | null>): Promise<unknown> {
  try {
    const found = await list;
    return found && { rows: found.rows, isComplete: found.isComplete, problems: found.problems };
  } catch (error) {
    return error instanceof MirrorError ? `${error.code}: ${error.message}` : error;
  }
}

describe('for any behaviour of the service', () => {
  it('a list read with a memory has the same result as without', async () => {
    await fc.assert(
      fc.asyncProperty(someLife, async (lives) => {
        const memory: WorkbookMemory = {};
        for (const places of lives) {
          const { transport } = transportTo(() => places);
          const remembering = await outcome(read(transport, memory));
          expect(remembering).toEqual(await outcome(read(transport)));
        }
      }),
      { numRuns: 400 },
    );
  });

  it('a list that shifts during the read is complete only if it equals a past state', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(12), { minLength: 1, maxLength: 12 }), async (sizes) => {
        let asked = 0;
        // Every response gives another number of workbooks.
        const placesNow = (): Places => {
          asked += 1;
          return wholeList(sizes[Math.min(asked, sizes.length) - 1] ?? 0);
        };
        const list = await outcome(read(transportTo(placesNow).transport));
        const { isComplete, rows } = list as Partial<WorkbookList>;
        if (isComplete !== true || rows === undefined) return;
        expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
        expect(sizes).toContain(rows.length);
      }),
    );
  });
});

const CURRENT = new URL('https://service.example/app/api/v1/workbooks');

function next(reference: string, current = CURRENT): string {
  return nextPageUrl(reference, current).href;
}

describe('the address of the next page', () => {
  it('keeps the slash at the end of the path of a list', () => {
    const second = next('/app/api/v1/workbooks/?page=2');
    expect(second).toBe(`${CURRENT.href}/?page=2`);
    expect(next('?page=3', new URL(second))).toBe(`${CURRENT.href}/?page=3`);
  });

  const page2 = `${CURRENT.href}?page=2`;

  it.each([
    ['an absolute address', page2],
    ['a path', '/app/api/v1/workbooks?page=2'],
    ['a path without the prefix of the base address', '/api/v1/workbooks?page=2'],
    ['a bare query', '?page=2'],
    ['the inner host behind a proxy', 'http://10.0.0.7:8080/api/v1/workbooks?page=2'],
    ['an address without a scheme', '//inner/api/v1/workbooks?page=2'],
    ['a fragment', '?page=2#top'],
    ['credentials on a foreign host', 'https://user:pass@evil.example/collect?page=2'],
    ['another scheme', 'javascript:alert(1)?page=2'],
  ])('from %s', (_what, reference) => {
    expect(next(reference)).toBe(page2);
  });

  it('may be another path of the same origin, without a user name', () => {
    expect(next('/app/api/v1/workbooks/page/2')).toBe(`${CURRENT.href}/page/2`);
    const named = 'https://user:pass@service.example/app/api/v1/workbooks/page/2';
    expect(next(named)).toBe(`${CURRENT.href}/page/2`);
  });

  it('keeps the status filter, unless it has its own', () => {
    const filtered = new URL(`${CURRENT.href}?status=failure&page=1`);
    expect(next('?page=2', filtered)).toBe(`${CURRENT.href}?page=2&status=failure`);
    expect(filtered.href).toBe(`${CURRENT.href}?status=failure&page=1`);
    expect(next('?page=2&status=failure', filtered)).toBe(`${CURRENT.href}?page=2&status=failure`);
    expect(next('/app/api/v1/workbooks/page/2', filtered)).toBe(`${CURRENT.href}/page/2?status=failure`);
    expect(new URL(next('?page=2')).searchParams.has('status')).toBe(false);
  });

  it.each([CURRENT.href, 'https://inner/page/2', '?', 'http://[', 'https://evil.example/collect'])(
    'is not a usable address: %j',
    (reference) => {
      expect(() => next(reference)).toThrow(expect.objectContaining({ code: 'listing.malformed' }) as Error);
    },
  );

  it('never leads to another origin', () => {
    const pieces = 'http: https: // / \\ @ evil service.example :8443 ? a=b # ..'.split(' ');
    const piece = fc.constantFrom(...pieces, '\t');
    const reference = fc.oneof(
      fc.webUrl({ withQueryParameters: true }),
      fc.array(piece, { maxLength: 8 }).map((found) => found.join('')),
      fc.string(),
    );
    fc.assert(
      fc.property(reference, (text) => {
        try {
          expect(nextPageUrl(text, CURRENT).origin).toBe(CURRENT.origin);
        } catch (error) {
          expect(error).toBeInstanceOf(MirrorError);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('never leads to the other generation of the API, which has another credential', () => {
    expect(next('/app/api/repos?page=2')).toContain('/v1/');
  });
});
