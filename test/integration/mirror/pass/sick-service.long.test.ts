import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished } from 'vitest';

import { exitCodeOf, MirrorError } from '../../../../src/lib/errors/errors.ts';
import {
  API_KEY,
  API_TOKEN,
  type Fault,
  type FakeKnobs,
  FakeService,
} from '../../../support/fake-service.ts';
import { startFake } from '../../../support/started-fake.ts';
import { type HarnessSettings, MirrorHarness } from '../../../support/mirror-harness.ts';
import { type Attacked, type AttackPoint, sweep } from '../../../support/sweep.ts';

const LANES = 2;

/** All faults take a minute or two. */
const TIMEOUT_MS = process.env['ATTACK'] === 'all' ? 3_600_000 : 600_000;

/** How many faults at endpoints, and cuts of answers, are tried unless all are wanted (`ATTACK=all`). */
const [SAMPLE, CUT_SAMPLE] = [120, 60];

/** An answer may vary by some bytes from round to round: compressed texts do. */
const SPARE_BYTES = 4;

/** The sick answer. */
type Endpoint = 'repos' | 'workbooks' | 'second-page' | 'contents' | 'exists';

/** A failure until the next version. */
const QUARANTINES: ReadonlySet<string> = new Set(['archive.refused', 'contents.too_large']);

/** The result of a sick pass. */
interface SickPass {
  readonly exitCode: number;
  readonly codes: readonly string[];
}

/** A mirror of a service that is repeatedly made sick, each time with new changes. */
class SickPair {
  readonly service: FakeService;
  readonly mirror: MirrorHarness;
  private readonly concerned: { readonly id: string };
  private round = 0;

  private constructor(service: FakeService, mirror: MirrorHarness, concerned: { readonly id: string }) {
    this.service = service;
    this.mirror = mirror;
    this.concerned = concerned;
  }

  static async open(knobs: Partial<FakeKnobs>, settings: HarnessSettings): Promise<SickPair> {
    const service = await FakeService.start({ pageSize: 2, ...knobs });
    // Numbers of equal length, so that all answers have the same length.
    service.sequence = 100_000;
    const concerned = service.addRepository('Accounting', { 'folder/plan.xlsx': '', 'folder/notes.txt': '' });
    const other = service.addRepository('host/org/plan.git', { 'a.xlsx': '', 'b.xlsx': '' });
    service.fork(other, 'main', 'feature/x');
    const mirror = await MirrorHarness.open(service, settings);
    const pair = new SickPair(service, mirror, concerned);
    pair.edit();
    await mirror.pass();
    return pair;
  }

  async close(): Promise<void> {
    await this.mirror.close();
    await this.service.close();
  }

  /** The length of the body of an answer, in bytes. */
  async lengthOf(endpoint: Exclude<Endpoint, 'exists'>): Promise<number> {
    const { service } = this;
    const path = {
      repos: '/repos',
      workbooks: '/v1/workbooks',
      'second-page': '/v1/workbooks?page=2',
      contents: `/repos/${this.concerned.id}/contents?branch=main`,
    }[endpoint];
    const headers = path.startsWith('/v1/') ? { authorization: API_TOKEN } : { 'x-api-key': API_KEY };
    const answer = await fetch(service.baseUrl + path, { headers });
    const { byteLength } = await answer.arrayBuffer();
    service.takeRequests();
    return byteLength;
  }

  /** Makes a sick and a healthy pass. @returns the violations */
  async attack(endpoint: Endpoint, fault: Fault): Promise<Attacked> {
    const { service } = this;
    const before = await this.snapshot();
    this.edit();
    let isReached = false;
    service.fault = (path) => {
      if (!this.isAt(path, endpoint)) return null;
      isReached = true;
      return fault;
    };
    const pass = await this.sickPass();
    service.fault = null;
    const violations = [...(await this.faultsOf(before, endpoint, pass)), ...this.leaks()];
    if (pass.codes.some((code) => QUARANTINES.has(code))) this.edit();
    violations.push(...(await this.healthyPass()), ...this.leaks());
    if (violations.length > 0) violations.push(`it had come to ${pass.exitCode} ${pass.codes.join(' ')}`);
    return { isReached, violations };
  }

  private isAt(path: string, endpoint: Endpoint): boolean {
    const [before = '', inner] = path.split('/contents');
    const isConcerned = before.endsWith(`/${this.concerned.id}`) || before.endsWith('/Accounting');
    switch (endpoint) {
      case 'repos':
        return path.endsWith('/repos');
      case 'workbooks':
        return path.endsWith('/workbooks');
      case 'second-page':
        return path.includes('/workbooks?page=2');
      case 'contents':
        return isConcerned && inner?.startsWith('?') === true;
      case 'exists':
        return isConcerned && inner?.startsWith('/') === true;
    }
  }

  /** Gives all files new bytes of the same length. */
  private edit(): void {
    this.round += 1;
    const text = `round ${String(this.round).padStart(6, '0')}`;
    for (const repository of this.service.repositories) {
      for (const [branch, { files }] of repository.branches) {
        for (const path of files.keys()) this.service.write(repository, branch, path, `${path} ${text}`);
      }
    }
  }

  private async sickPass(): Promise<SickPass> {
    try {
      const { exitCode, results } = await this.mirror.pass();
      const codes = results.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome.error.code] : []));
      return { exitCode, codes };
    } catch (error) {
      const code = error instanceof MirrorError ? error.code : String(error);
      return { exitCode: exitCodeOf(error), codes: [code] };
    }
  }

  private async healthyPass(): Promise<string[]> {
    try {
      const { exitCode } = await this.mirror.pass();
      await this.mirror.expectExact();
      return exitCode === 0 ? [] : [`the healthy pass came to ${exitCode}`];
    } catch (error) {
      // A connection of the sick answer may still be closing.
      await sleep(50);
      const again: unknown = await this.mirror.pass().catch((reason: unknown) => reason);
      return [`the healthy pass failed: ${String(error)}; the one after it: ${String(again)}`];
    }
  }

  private async faultsOf(
    before: ReadonlyMap<string, string>,
    endpoint: Endpoint,
    pass: SickPass,
  ): Promise<string[]> {
    const { mirror, service } = this;
    const after = await this.snapshot();
    const faults: string[] = [];
    if (pass.exitCode === 70) faults.push('a defect');
    const isExact = await mirror.expectExact().then(
      () => true,
      () => false,
    );
    if (pass.exitCode === 0 && !isExact) faults.push('the pass came to 0, but the mirror is not exact');
    const isList = endpoint !== 'contents' && endpoint !== 'exists';
    const mustStay = isList && pass.exitCode === 3;
    const expected = service.expectedTrees();
    for (const [target, old] of before) {
      const now = after.get(target);
      if (now === old) continue;
      if (mustStay) faults.push(`${target} changed although the list was not read`);
      else if (now === undefined) faults.push(`${target} is gone`);
      else if (!now.startsWith(treeText(expected[target] ?? new Map())))
        faults.push(`${target} is neither old nor new: ${now.slice(0, 500)}`);
    }
    for (const target of after.keys())
      if (!before.has(target)) faults.push(`${target} has come from nowhere`);
    if (mirror.eventsOf('target.retired').length > 0) faults.push('something was retired');
    return faults;
  }

  private leaks(): string[] {
    const leaks = this.service
      .credentialFaults()
      .map((request) => `a credential where it does not belong: ${request}`);
    this.service.takeRequests();
    return leaks;
  }

  /** Every target's tree and manifest, as one text each, and the files that belong to no target. */
  private async snapshot(): Promise<Map<string, string>> {
    const texts = new Map<string, string>();
    const files = await this.mirror.files('mirror');
    for (const [name, manifest] of await this.mirror.files('manifests')) {
      const target = name.replace(/\.json$/, '');
      const tree = await this.mirror.tree(target);
      for (const path of tree.keys()) files.delete(`${target}/${path}`);
      texts.set(target, treeText(tree) + String(manifest));
    }
    for (const path of files.keys()) texts.set(path, 'without a manifest');
    return texts;
  }
}

function treeText(tree: ReadonlyMap<string, Buffer>): string {
  const lines = [...tree].map(([path, bytes]) => `${path}: ${bytes.toString('hex')}`);
  return `${lines.sort().join('\n')}\n--\n`;
}

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
};

const CUTS: Readonly<Record<string, (at: number) => Fault>> = {
  ends: (after) => ({ kind: 'cut', after }),
  'is reset': (after) => ({ kind: 'cut', after, reset: true }),
  'is whole by its length': (keep) => ({ kind: 'truncate', keep }),
};

function redirects(other: FakeService): Record<string, Fault> {
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
      const other = await startFake();
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

it.each(['content-length', 'chunked'] as const)(
  'an answer cut at any byte changes nothing, and the next pass corrects that (%s)',
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
