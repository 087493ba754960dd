import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished } from 'vitest';

import {
  type Fault,
  type FakeKnobs,
  type OtherOrigin,
  startOtherOrigin,
} from '../../../support/fake-service.ts';
import type { HarnessSettings } from '../../../support/mirror-harness.ts';
import { type Endpoint, SickPair } from '../../../support/sick-service.ts';
import { type AttackPoint, sweep } from '../../../support/sweep.ts';

const LANES = 2;

/** All faults take a minute or two. */
const TIMEOUT_MS = process.env['ATTACK'] === 'all' ? 3_600_000 : 600_000;

/** How many faults at endpoints, and cuts of answers, are tried unless all are wanted (`ATTACK=all`). */
const [SAMPLE, CUT_SAMPLE] = [120, 60];

/** An answer may vary by some bytes from round to round: compressed texts do. */
const SPARE_BYTES = 4;

const ENDPOINTS: readonly Endpoint[] = ['repos', 'workbooks', 'second-page', 'contents', 'exists'];

const STATUSES = [
  201, 204, 205, 206, 226, 300, 304, 400, 401, 402, 403, 404, 405, 406, 408, 410, 413, 414, 418, 421, 422,
  423, 425, 426, 429, 431, 451, 500, 501, 502, 503, 504, 507, 511, 599,
];

function text(body: string, headers: Readonly<Record<string, string>> = {}): Fault {
  return { kind: 'body', body: Buffer.from(body), headers };
}

function raw(bytes: string): Fault {
  return { kind: 'raw', bytes: Buffer.from(bytes, 'latin1') };
}

/** Bodies with status 200 that the API never gives. */
const BODIES: Readonly<Record<string, Fault>> = {
  'an HTML page': { kind: 'html' },
  'an error in JSON': { kind: 'json' },
  nothing: { kind: 'truncate', keep: 0 },
  'something behind it': { kind: 'pad', bytes: 10 },
  null: text('null'),
  'a number': text('7'),
  'a text': text('"/api"'),
  'an empty object': text('{}'),
  'an empty list': text('[]'),
  'a list of nonsense': text('[null,7,"x",[],{},{"id":1},{"id":"__proto__"}]'),
  'an empty page': text('{"count":0,"next":null,"previous":null,"results":[]}'),
  'a page of nonsense': text('{"count":3,"next":null,"results":[null,7,{"id":"x","version":null}]}'),
  'a page whose count is wrong': text('{"count":-1,"next":null,"results":[]}'),
  'a page whose next is itself': text('{"count":9,"next":"?page=2","results":[]}'),
  'a page whose next is huge': text(`{"count":9,"next":"?page=${'2'.repeat(20_000)}","results":[]}`),
  'lists in lists': text('['.repeat(100_000)),
  'a prototype': text('{"__proto__":{"count":0},"constructor":7,"results":[]}'),
  'half a character': { kind: 'body', body: Buffer.from([0x5b, 0x22, 0xc3, 0x22, 0x5d]) },
  'UTF-16': { kind: 'body', body: Buffer.from('\ufeff[]', 'utf16le') },
  XML: text('<?xml version="1.0"?><error/>', { 'content-type': 'application/xml' }),
  'an empty archive': { kind: 'body', body: Buffer.from(`PK\u0005\u0006${'\0'.repeat(18)}`, 'latin1') },
  'the start of an archive': text('PK\u0003\u0004'),
  'gzip that is none': text('[]', { 'content-encoding': 'gzip' }),
  'half of gzip': {
    kind: 'body',
    body: gzipSync(Buffer.from('[] '.repeat(100))).subarray(0, 25),
    headers: { 'content-encoding': 'gzip' },
  },
  'an unknown coding': text('[]', { 'content-encoding': 'x-other' }),
  'a gzip bomb': {
    kind: 'body',
    body: gzipSync(Buffer.alloc(3_000_000, ' ')),
    headers: { 'content-encoding': 'gzip' },
  },
};

/** Faults of connections and headers. */
const CONNECTIONS: Readonly<Record<string, Fault>> = {
  'a length that is too great': { kind: 'length', delta: 5 },
  'a length that is too small': { kind: 'length', delta: -5 },
  'a reset at once': { kind: 'cut', after: 0, reset: true },
  'an end at once': { kind: 'cut', after: 0 },
  'no end': { kind: 'endless', after: 1, piece: Buffer.alloc(10_000, ' ') },
  'an end before the headers': raw(''),
  'garbage for headers': raw('\u0000\u0001\u0002 garbage\r\n\r\n'),
  'another protocol': raw('SSH-2.0-OpenSSH_9.9\r\n'),
  'another version': raw('HTTP/7.7 200 OK\r\n\r\n'),
  'half of the headers': raw('HTTP/1.1 200 OK\r\nContent-Type: applica'),
  'a length that is none': raw('HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n[]'),
  'a length below zero': raw('HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n[]'),
  'two lengths': raw('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]'),
  'length and chunks': raw(
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n',
  ),
  'chunks that are none': raw('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n[]\r\n'),
  'chunks without an end': raw('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n'),
  'huge headers': raw(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\nContent-Length: 2\r\n\r\n[]`),
  'two answers for one': raw(
    'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]',
  ),
  'a body until the end': raw('HTTP/1.1 200 OK\r\n\r\n{"count":'),
};

/** Faults that end by a time limit. */
const SLOW: Readonly<Record<string, Fault>> = {
  silence: { kind: 'silence' },
  'a stall at once': { kind: 'stall', after: 0 },
  'a stall within': { kind: 'stall', after: 20 },
  'a byte now and then': { kind: 'trickle', everyMs: 100 },
};

const CUTS: Readonly<Record<string, (at: number) => Fault>> = {
  ends: (after) => ({ kind: 'cut', after }),
  'is reset': (after) => ({ kind: 'cut', after, reset: true }),
  'is whole by its length': (keep) => ({ kind: 'truncate', keep }),
};

function redirects(other: OtherOrigin): Record<string, Fault> {
  const to: Readonly<Record<string, string>> = {
    'another origin': `${other.origin}/api/repos`,
    'another origin, without a scheme': `${other.origin.replace('http:', '')}/api/v1/workbooks`,
    'another scheme': 'https://127.0.0.1:1/api/repos',
    script: 'javascript:alert(1)',
    'the other generation': '/api/v1/workbooks?x',
    'the other list': '/api/repos?x',
    'a login page': '/login',
    nowhere: '',
    'no address': 'http://',
  };
  return Object.fromEntries(
    Object.entries(to).flatMap(([name, target]) =>
      [302, 307].map((status) => [
        `a redirect (${status}) to ${name}`,
        { kind: 'redirect', to: target, status },
      ]),
    ),
  );
}

async function lanesOf(knobs: Partial<FakeKnobs>, settings: HarnessSettings = {}): Promise<SickPair[]> {
  const pairs = await Promise.all(Array.from({ length: LANES }, () => SickPair.open(knobs, settings)));
  onTestFinished(async () => void (await Promise.all(pairs.map((pair) => pair.close()))));
  return pairs;
}

function pointOf(
  pairs: readonly SickPair[],
  endpoint: Endpoint,
  stratum: string,
  id: string,
  fault: Fault,
): AttackPoint {
  const attack = async (lane: number): ReturnType<SickPair['attack']> => {
    const pair = pairs[lane];
    if (pair === undefined) throw new Error('there is no such lane');
    return pair.attack(endpoint, fault);
  };
  return { id, stratum: `${endpoint} ${stratum}`, attack };
}

function pointsOf(
  pairs: readonly SickPair[],
  faults: Readonly<Record<string, Fault>>,
  stratum: string,
): AttackPoint[] {
  return ENDPOINTS.flatMap((endpoint) =>
    Object.entries(faults).map(([name, fault]) =>
      pointOf(pairs, endpoint, stratum, `${endpoint} with ${name}`, fault),
    ),
  );
}

/** Archives have a folder around everything, so that the client asks the service about it. */
const WRAPPED = { leadingFolder: 'export' } as const;

describe('after any fault of an answer, no correct data is lost', () => {
  it(
    'as long as it comes in time',
    async () => {
      const other = await startOtherOrigin();
      onTestFinished(() => other.close());
      const pairs = await lanesOf(WRAPPED, { ARCHIVE_MAX_SIZE: '1MB' });
      const statuses = Object.fromEntries(
        STATUSES.map((status): [string, Fault] => [`status ${status}`, { kind: 'status', status }]),
      );
      const points = [
        ...pointsOf(pairs, statuses, 'statuses'),
        ...pointsOf(pairs, BODIES, 'bodies'),
        ...pointsOf(pairs, CONNECTIONS, 'connections'),
        ...pointsOf(pairs, redirects(other), 'redirects'),
      ];
      await sweep('faults at endpoints', points, SAMPLE, LANES);
      expect(other.requests).toStrictEqual([]);
    },
    TIMEOUT_MS,
  );

  it(
    'or too late',
    async () => {
      const pairs = await lanesOf(WRAPPED, { SERVICE_TIMEOUT: '500ms' });
      await sweep('slow answers', pointsOf(pairs, SLOW, 'slow'), 5, LANES);
    },
    TIMEOUT_MS,
  );
});

describe('an answer cut at any byte changes nothing, and the next pass corrects that', () => {
  it.each(['content-length', 'chunked'] as const)(
    '(%s)',
    async (length) => {
      const pairs = await lanesOf({ length });
      const points: AttackPoint[] = [];
      for (const endpoint of ['repos', 'workbooks', 'second-page', 'contents'] as const) {
        const bytes = ((await pairs[0]?.lengthOf(endpoint)) ?? 0) + SPARE_BYTES;
        for (const [how, faultAt] of Object.entries(CUTS))
          for (let at = 0; at < bytes; at += 1)
            points.push(pointOf(pairs, endpoint, how, `${endpoint} ${how} ${at}`, faultAt(at)));
      }
      await sweep(`answers cut (${length})`, points, CUT_SAMPLE, LANES);
    },
    TIMEOUT_MS,
  );
});
