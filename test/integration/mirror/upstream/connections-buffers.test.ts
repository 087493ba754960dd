import { createHash, randomBytes } from 'node:crypto';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { type Connections, createConnections } from '../../../../src/mirror/upstream/connections.ts';
import { listen, makeCertificate } from '../../../support/listen.ts';

const CONTENT = randomBytes(9_000_000);
const PACKED = gzipSync(CONTENT, { level: 1 });
const DIGEST = digestOf([CONTENT]);

function digestOf(pieces: Iterable<Uint8Array>): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}

/** Serves the content as its path says: with a length, in chunks of some odd size, or compressed. */
function serve(server: Server): Server {
  return server.on('request', ({ url = '' }, response) => {
    if (url.endsWith('/gzip')) {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': PACKED.length }).end(PACKED);
    } else if (url.endsWith('/chunked')) {
      response.writeHead(200);
      for (let at = 0; at < CONTENT.length; at += 70_001) response.write(CONTENT.subarray(at, at + 70_001));
      response.end();
    } else response.writeHead(200, { 'content-length': CONTENT.length }).end(CONTENT);
  });
}

function connectTo(origin: string): Connections {
  const connections = createConnections(origin, {
    timeoutMs: 5000,
    connections: 2,
    bufferBytes: 1024 * 1024,
  });
  onTestFinished(connections.close);
  return connections;
}

interface Read {
  readonly digest: string;
  readonly pieces: number;
  /** How many pieces of memory there were for them. */
  readonly memories: number;
}

/** Reads a body piece by piece. @param isKept whether a piece, by its number, is kept to the end */
async function read(
  connections: Connections,
  url: string,
  isKept: (at: number) => boolean,
  isSlow = false,
): Promise<Read> {
  const { signal } = new AbortController();
  const answer = await connections.send(new URL(url), { headers: {}, body: undefined, signal });
  const taken: Uint8Array[] = [];
  const memories = new Set<ArrayBufferLike>();
  const pieces: AsyncIterable<Uint8Array> = answer.body;
  for await (const piece of pieces) {
    memories.add(piece.buffer);
    taken.push(isKept(taken.length) ? piece : Uint8Array.from(piece));
    if (taken.at(-1) !== piece) answer.giveBack(piece);
    if (isSlow && taken.length % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return { digest: digestOf(taken), pieces: taken.length, memories: memories.size };
}

/** What a few buffers suffice for, where those that wait and those on the way are counted. */
const FEW = 20;

describe.each(['plain', 'TLS'])('a body that comes by %s', (kind) => {
  async function origin(): Promise<string | null> {
    if (kind === 'plain') return `http://${await listen(serve(createServer()))}`;
    const certificate = await makeCertificate('localhost');
    if (certificate === null) return null;
    const before = getCACertificates();
    setDefaultCACertificates([certificate.cert]);
    onTestFinished(() => setDefaultCACertificates(before));
    return `https://${await listen(serve(createHttpsServer(certificate)))}`;
  }

  it.each(['length', 'chunked', 'gzip'])('with %s is right whatever its reader gives back', async (path) => {
    const address = await origin();
    if (address === null) return;
    const connections = connectTo(address);
    const kept: ReadonlyArray<(at: number) => boolean> = [
      () => false,
      () => true,
      (at) => at % 3 === 0,
      (at) => at % 7 < 4,
    ];
    for (const isKept of kept) {
      expect((await read(connections, `${address}/${path}`, isKept)).digest).toBe(DIGEST);
    }
    const slow = await Promise.all([
      read(connections, `${address}/${path}`, (at) => at % 4 === 1, true),
      read(connections, `${address}/${path}`, () => false, true),
    ]);
    expect(slow.map(({ digest }) => digest)).toEqual([DIGEST, DIGEST]);
  });

  it('is read into few buffers, also by a slow reader', async () => {
    const address = await origin();
    if (address === null) return;
    for (const isSlow of [false, true]) {
      const { pieces, memories } = await read(connectTo(address), `${address}/length`, () => false, isSlow);
      expect(pieces).toBeGreaterThan(3 * FEW);
      expect(memories).toBeLessThan(FEW);
    }
  });
});

describe('a piece', () => {
  it('that is given back too early is nonsense', async () => {
    const address = `http://${await listen(serve(createServer()))}`;
    const answer = await connectTo(address).send(new URL(`${address}/length`), {
      headers: {},
      body: undefined,
      signal: new AbortController().signal,
    });
    const hash = createHash('sha256');
    const pieces: AsyncIterable<Uint8Array> = answer.body;
    for await (const piece of pieces) {
      answer.giveBack(piece);
      hash.update(piece);
    }
    expect(hash.digest('hex')).not.toBe(DIGEST);
  });

  it('that comes through a proxy is its reader’s for ever', async () => {
    const address = `http://${await listen(serve(createServer()))}`;
    const proxy = createServer(({ url = '' }, response) => {
      httpRequest(url, (answer) => answer.pipe(response)).end();
    });
    vi.stubEnv('HTTP_PROXY', await listen(proxy));
    vi.stubEnv('NO_PROXY', undefined);
    vi.stubEnv('no_proxy', undefined);
    onTestFinished(() => void vi.unstubAllEnvs());
    expect((await read(connectTo(address), `${address}/length`, () => false)).digest).toBe(DIGEST);
  });
});
