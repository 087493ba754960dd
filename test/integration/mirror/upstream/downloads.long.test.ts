import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { crc32, gzipSync } from 'node:zlib';

import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import {
  Contents,
  type ContentsAnswer,
  type FileAnswer,
  type FileRequest,
} from '../../../../src/mirror/upstream/contents.ts';
import { Transport, type TransportOptions } from '../../../../src/mirror/upstream/transport.ts';
import { type Destination, FileDestination } from '../../../../src/mirror/upstream/download.ts';
import type { Repository } from '../../../../src/mirror/upstream/listing.ts';
import { listen } from '../../../support/listen.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { buildZip } from '../../../support/zip-builder.ts';

/** The difference of one answer from a whole and honest one. */
interface Mood {
  /** How much of the body is sent before the connection is cut; all of it if left out. */
  readonly cutAfter?: number;
  /** Whether it is cut before the client has stored everything sent, so that some of it may be lost. */
  readonly isHurried?: boolean;
  /** Whether it sends nothing more there instead. */
  readonly isStalled?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly ignoresRange?: boolean;
  readonly status?: number;
  /** Sent in place of the body. */
  readonly body?: Buffer;
  readonly isChunked?: boolean;
}

const REPOSITORY: Repository = { id: 'r', name: 'r', fullName: 'r', url: null, createdAt: null };

let address = '';
let transport: Transport;
let folder = '';
let destination = '';
/** The destination of the last download. */
let into: Destination;
/** The present content of the service. */
let state: Buffer = Buffer.alloc(0);
let moods: Mood[] = [];
/** Asked before each answer. */
let beforeAnswer: () => void = () => {};
let asked: {
  path: string;
  range: string | undefined;
  ifRange: string | undefined;
  ifNoneMatch: string | undefined;
}[] = [];
let bodyBytes = 0;
let retriedFrom: number[] = [];

function archive(sizeBytes: number): Buffer {
  return Buffer.concat([Buffer.from('PK\u0003\u0004', 'latin1'), randomBytes(sizeBytes - 4)]);
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function tagOf(bytes: Buffer): string {
  return `"${sha256(bytes).slice(0, 16)}"`;
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { range, 'if-range': ifRange, 'if-none-match': ifNoneMatch } = request.headers;
  const path = decodeURIComponent(request.url ?? '');
  if (!path.includes('/contents')) {
    response.writeHead(200).end('[]');
    return;
  }
  asked.push({ path, range, ifRange: typeof ifRange === 'string' ? ifRange : undefined, ifNoneMatch });
  beforeAnswer();
  const mood = moods.shift() ?? {};
  const whole = mood.body ?? state;
  const etag = tagOf(whole);
  if (ifNoneMatch === etag) {
    response.writeHead(304, { etag }).end();
    return;
  }
  const first = Number(/^bytes=(\d+)-$/.exec(range ?? '')?.[1] ?? 0);
  const isPart = range !== undefined && ifRange === etag && mood.ignoresRange !== true;
  if (isPart && first >= whole.length) {
    response.writeHead(416, { etag, 'content-range': `bytes */${whole.length}` }).end();
    return;
  }
  send(response, mood, whole, isPart ? first : null);
}

/** @param from start of the sent part; null for everything */
function send(response: ServerResponse, mood: Mood, whole: Buffer, from: number | null): void {
  const first = from ?? 0;
  const body = whole.subarray(first);
  const length = mood.isChunked === true ? {} : { 'content-length': String(body.length) };
  const part = from === null ? {} : { 'content-range': `bytes ${first}-${whole.length - 1}/${whole.length}` };
  const headers = Object.entries({ etag: tagOf(whole), ...length, ...part, ...mood.headers }).filter(
    ([, value]) => value !== '',
  );
  response.writeHead(mood.status ?? (from === null ? 200 : 206), Object.fromEntries(headers));
  response.flushHeaders();
  const sent = body.subarray(0, mood.cutAfter ?? body.length);
  bodyBytes += sent.length;
  response.write(sent, () => {
    if (mood.cutAfter === undefined) response.end();
    else if (mood.isStalled !== true) cut(response, mood.isHurried === true ? 0 : first + sent.length);
  });
}

/** Cuts a connection when this much is stored. */
function cut(response: ServerResponse, sizeBytes: number): void {
  const timer = setInterval(() => {
    if (response.destroyed || into.sizeBytes >= sizeBytes) {
      clearInterval(timer);
      response.destroy();
    }
  }, 1);
}

/** @param maxBandwidth in bytes a second */
function open(
  options: Partial<TransportOptions> = {},
  maxArchiveBytes = 10_000_000,
  maxBandwidth: number | null = null,
): Contents {
  transport = new Transport({
    baseUrl: `http://${address}/api`,
    keys: (generation) => (generation === 'current' ? ['key'] : []),
    keyMemory: {},
    timeoutMs: 5000,
    connections: 4,
    pause: {},
    onRetry: (_error, _delayMs, fromBytes) => retriedFrom.push(fromBytes),
    ...options,
  });
  return new Contents(transport, { referenceForm: 'id' }, maxArchiveBytes, maxBandwidth);
}

/** The facts of each request for contents; it goes to a new destination. */
function request(signal = new AbortController().signal, place = destination) {
  const file = new FileDestination(place);
  into = file;
  return { repository: REPOSITORY, branch: 'main', destination: file, signal };
}

function download(context: Contents, etag: string | null = null): Promise<ContentsAnswer> {
  return context.download({ ...request(), etag });
}

/** The leftovers of a download. */
function kept(): Promise<Buffer> {
  return readFile(destination);
}

function downloadPath(
  context: Contents,
  path: string,
  expected: FileRequest['expected'] = {},
): Promise<FileAnswer> {
  return context.downloadFile({ ...request(), path, expected });
}

beforeEach(async () => {
  folder = await temporaryFolder();
  destination = join(folder, 'download');
  [moods, asked, bodyBytes, retriedFrom, beforeAnswer] = [[], [], 0, [], () => {}];
  address = await listen(createServer(answer));
});

afterEach(() => transport.close());

describe('a download that breaks off', () => {
  it.each([
    ['with a length', false],
    ['in chunks', true],
  ])('continues after a break: %s', async (_what, isChunked) => {
    state = archive(1_000_000);
    moods = [{ cutAfter: 300_000, isChunked }, { cutAfter: 200_000 }, {}];
    const found = await download(open());
    expect(found).toMatchObject({ kind: 'archive', sizeBytes: 1_000_000, etag: tagOf(state) });
    expect(state.equals(await kept())).toBe(true);
    expect(asked.map(({ range }) => range)).toEqual([undefined, 'bytes=300000-', 'bytes=500000-']);
    expect(asked.map(({ ifRange }) => ifRange)).toEqual([undefined, tagOf(state), tagOf(state)]);
    expect(retriedFrom).toEqual([300_000, 500_000]);
    expect(bodyBytes).toBe(1_000_000);
  });

  it('continues after a silence, too', async () => {
    state = archive(400_000);
    moods = [{ cutAfter: 100_000, isStalled: true }];
    await download(open({ timeoutMs: 500 }));
    expect(state.equals(await kept())).toBe(true);
    expect(retriedFrom).toEqual([100_000]);
  });

  it('does not use up the retries as long as it gets further', async () => {
    state = archive(1_000_000);
    moods = Array.from({ length: 9 }, () => ({ cutAfter: 100_000 }));
    await download(open());
    expect(state.equals(await kept())).toBe(true);
    expect(asked).toHaveLength(10);
  });

  it('is not retried forever with hardly any progress', async () => {
    state = archive(1_000_000);
    moods = Array.from({ length: 100 }, () => ({ cutAfter: 1000 }));
    await expect(download(open())).rejects.toMatchObject({ code: 'contents.interrupted' });
    expect(asked).toHaveLength(5);
    expect(existsSync(destination)).toBe(false);
  });

  it.each<[string, Mood, boolean]>([
    ['has a weak tag', { headers: { etag: 'W/"a"' } }, false],
    ['has no tag', { headers: { etag: '' } }, false],
    ['has a content coding', { headers: { 'content-encoding': 'gzip' } }, true],
  ])('starts again if the response %s', async (_what, mood, isCoded) => {
    state = archive(300_000);
    const coded = isCoded ? { ...mood, body: gzipSync(state) } : mood;
    moods = [{ ...coded, cutAfter: 200_000, isHurried: isCoded }, coded];
    await download(open());
    expect(state.equals(await kept())).toBe(true);
    expect(asked.map(({ range }) => range)).toEqual([undefined, undefined]);
  });

  it('sends a conditional request only while it has no bytes', async () => {
    state = archive(300_000);
    moods = [{ cutAfter: 100_000 }];
    const context = open();
    await download(context, '"old"');
    expect(asked.map(({ ifNoneMatch }) => ifNoneMatch)).toEqual(['"old"', undefined]);
    moods = [{ cutAfter: 100_000 }, { status: 304, body: Buffer.alloc(0) }];
    await rm(destination);
    await expect(download(context, '"old"')).rejects.toMatchObject({ code: 'service.wrong_kind' });
    expect(await download(context, tagOf(state))).toMatchObject({ kind: 'unchanged' });
  });

  it('is bounded in all its tries together', async () => {
    state = archive(1_000_000);
    moods = [{ cutAfter: 300_000, isChunked: true }, { isChunked: true }];
    const context = open({}, 900_000);
    await expect(download(context)).rejects.toMatchObject({ code: 'contents.too_large' });
    expect(existsSync(destination)).toBe(false);
  });

  const LIES: readonly Mood[] = [
    { headers: { 'content-range': 'bytes 0-9/10' } },
    { headers: { 'content-range': 'bytes 1-9/10' } },
    { headers: { 'content-range': '' } },
    { headers: { 'content-type': 'multipart/byteranges; boundary=x' } },
    { headers: { etag: '"lie"' } },
    { headers: { etag: 'W/"lie"' } },
    { headers: { etag: '' } },
    { status: 416, body: Buffer.from('{}') },
    { status: 206 },
    { status: 500 },
    { status: 404 },
    { ignoresRange: true },
    { isChunked: true },
    {},
  ];

  it('gives one whole state of the service, or an error, after any faults', async () => {
    const mood = fc.record({
      lie: fc.nat(LIES.length - 1),
      cut: fc.option(fc.nat(260_000), { freq: 2 }),
      changes: fc.boolean(),
      isHurried: fc.boolean(),
    });
    // A part that the client refuses may never be cut.
    const context = open({ timeoutMs: 500 });
    let kinds = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(mood, { maxLength: 6 }), fc.boolean(), async (script, isFile) => {
        await rm(destination, { force: true });
        const states = [archive(200_000), archive(200_000), archive(250_000)];
        state = states[0] ?? state;
        moods = script.map(({ lie, cut, isHurried }) => ({
          ...LIES[lie],
          isHurried,
          ...(cut === null ? {} : { cutAfter: cut }),
        }));
        const changes = script.map((each) => each.changes);
        beforeAnswer = () => {
          const next = states[states.indexOf(state) + 1];
          if (changes.shift() === true && next !== undefined) state = next;
        };
        const wanted = states[1] ?? state;
        const given = isFile ? downloadPath(context, 'a.bin', { sha256: sha256(wanted) }) : download(context);
        const found = await given.catch(() => null);
        if (found?.kind === 'archive') {
          const bytes = await kept();
          // It may be any state of the service, but it must be whole.
          expect(states.some((each) => each.equals(bytes))).toBe(true);
          expect(found.sizeBytes).toBe(bytes.length);
          kinds += 1;
        } else if (found?.kind === 'file') {
          expect(wanted.equals(await kept())).toBe(true);
        } else {
          expect(existsSync(destination)).toBe(false);
        }
      }),
      { numRuns: 150 },
    );
    expect(kinds).toBeGreaterThan(10);
  });
});

describe('a single file', () => {
  it('is requested by its path, and digested during the download', async () => {
    state = randomBytes(100_000);
    await writeFile(destination, 'of an attempt before');
    const found = await downloadPath(open(), 'a b/ü.bin', { sizeBytes: 100_000, sha256: sha256(state) });
    expect(found).toEqual({ kind: 'file' });
    expect(into).toMatchObject({ sizeBytes: 100_000, sha256: sha256(state), crc32: crc32(state) });
    expect(state.equals(await kept())).toBe(true);
    expect(asked.map(({ path }) => path)).toEqual(['/api/repos/r/contents/a b/ü.bin?branch=main']);
  });

  it('of several answers is taken only with a digest', async () => {
    state = buildZip([{ name: '[Content_Types].xml', data: randomBytes(200_000) }]);
    for (const [expected, kind] of [
      [{ sha256: sha256(state) }, 'file'] as const,
      [{}, 'different'] as const,
    ]) {
      moods = [{ cutAfter: 100_000 }];
      expect(await downloadPath(open(), 'a.xlsx', expected)).toEqual({ kind });
    }
  });

  it.each([404, 410, 400])('is not found with status %i', async (status) => {
    moods = [{ status }];
    expect(await downloadPath(open(), 'a.bin')).toEqual({ kind: 'not-found' });
    expect(existsSync(destination)).toBe(false);
  });

  it.each([
    [403, 'contents.forbidden'],
    [418, 'service.wrong_kind'],
    [500, 'service.failed'],
  ])('fails with status %i', async (status, code) => {
    moods = Array.from({ length: 9 }, () => ({ status }));
    await expect(downloadPath(open(), 'a.bin')).rejects.toMatchObject({ code });
    expect(existsSync(destination)).toBe(false);
  });

  it.each<[string, FileRequest['expected'], Mood]>([
    ['has another digest', { sha256: 'ab' }, {}],
    ['has another size', { sizeBytes: 7 }, { isChunked: true }],
    ['is no workbook', {}, {}],
  ])('that %s is refused, and leaves nothing behind', async (_what, expected, mood) => {
    state = randomBytes(1000);
    moods = [mood];
    expect(await downloadPath(open(), 'a.bin', expected)).toEqual({ kind: 'different' });
    expect(existsSync(destination)).toBe(false);
  });

  it('ends when the pass is abandoned, and leaves nothing behind', async () => {
    state = randomBytes(100_000);
    moods = [{ cutAfter: 50_000, isStalled: true }];
    const abort = new AbortController();
    const context = open({ onProgress: () => abort.abort() });
    const left = context.downloadFile({ ...request(abort.signal), path: 'a.bin', expected: {} });
    await expect(left).rejects.toMatchObject({ code: 'pass.abandoned' });
    expect(existsSync(destination)).toBe(false);
  });
});

it('a disk that fails is not a fault of the service, and is not retried', async () => {
  state = archive(100_000);
  destination = join(folder, 'missing', 'download');
  await expect(download(open())).rejects.toMatchObject({ code: 'disk.failed' });
  expect(asked).toHaveLength(1);
});

describe('a limited download', () => {
  it('is complete, and does not count as stalled', async () => {
    state = archive(40_000);
    const progress: number[] = [];
    const context = open({ timeoutMs: 150, onProgress: () => progress.push(1) }, undefined, 50_000);
    expect(await download(context)).toMatchObject({ kind: 'archive', sizeBytes: 40_000 });
    expect(state.equals(await kept())).toBe(true);
    expect(progress.length).toBeGreaterThan(0);
  });

  it('ends when the pass is abandoned during its wait', async () => {
    state = archive(1_000_000);
    const abort = new AbortController();
    const context = open({ onProgress: () => setImmediate(() => abort.abort()) }, undefined, 1000);
    const left = context.download({ ...request(abort.signal), etag: null });
    await expect(left).rejects.toMatchObject({ code: 'pass.abandoned' });
    expect(existsSync(destination)).toBe(false);
  });
});

it('connections for lists are separate from the connections for downloads', async () => {
  state = archive(1_000_000);
  moods = Array.from({ length: 2 }, () => ({ cutAfter: 100, isStalled: true }));
  const abort = new AbortController();
  const context = open({ connections: 1 });
  const left = ['a', 'b'].map(async (name) =>
    context
      .download({ ...request(abort.signal, join(folder, name)), etag: null })
      .catch((error: unknown) => error),
  );
  await expect.poll(() => asked.length).toBe(1);
  const listed = await transport.send(
    { generation: 'current', target: '/repos', signal: abort.signal },
    ({ status }) => Promise.resolve(status),
  );
  expect(listed).toBe(200);
  abort.abort();
  expect(await Promise.all(left)).toMatchObject([{ code: 'pass.abandoned' }, { code: 'pass.abandoned' }]);
});
