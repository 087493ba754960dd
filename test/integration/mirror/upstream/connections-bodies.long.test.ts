import { createHash, randomBytes } from 'node:crypto';
import { getEventListeners, once } from 'node:events';
import { createServer, request as httpRequest, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import {
  type Connections,
  createConnections,
  piecesOf,
  type WireAnswer,
} from '../../../../src/mirror/upstream/connections.ts';
import { listen, makeCertificate, trust } from '../../../support/listen.ts';

const CONTENT = randomBytes(9_000_000);
const PACKED = gzipSync(CONTENT, { level: 1 });
const DIGEST = createHash('sha256').update(CONTENT).digest('hex');

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
  const connections = createConnections(origin, 5000, 2);
  onTestFinished(connections.close);
  return connections;
}

/** Asks a server controlled by the test. */
async function ask(
  listener: RequestListener,
  signal: AbortSignal = new AbortController().signal,
): Promise<WireAnswer> {
  const origin = `http://${await listen(createServer(listener))}`;
  return connectTo(origin).send(new URL(origin), { headers: {}, body: undefined, signal });
}

/** A buffer for reads is at least so large; copies of small reads are smaller. */
const LEAST_BUFFER_BYTES = 64 * 1024;

interface Read {
  readonly digest: string;
  readonly pieces: number;
  /** How many buffers there were for them; a small read is copied, and its buffer is free at once. */
  readonly buffers: number;
}

async function read(connections: Connections, url: string, isSlow = false): Promise<Read> {
  const { signal } = new AbortController();
  const answer = await connections.send(new URL(url), { headers: {}, body: undefined, signal });
  const hash = createHash('sha256');
  const buffers = new Set<ArrayBufferLike>();
  let pieces = 0;
  for await (const piece of piecesOf(answer)) {
    pieces += 1;
    if (piece.buffer.byteLength >= LEAST_BUFFER_BYTES) buffers.add(piece.buffer);
    if (isSlow && pieces % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    hash.update(piece);
  }
  return { digest: hash.digest('hex'), pieces, buffers: buffers.size };
}

async function textOf(answer: WireAnswer): Promise<string> {
  let text = '';
  for await (const piece of piecesOf(answer)) text += Buffer.from(piece).toString();
  return text;
}

describe.each(['plain', 'TLS'])('a body sent by %s', (kind) => {
  async function origin(): Promise<string> {
    if (kind === 'plain') return `http://${await listen(serve(createServer()))}`;
    const certificate = await makeCertificate('localhost');
    trust(certificate.cert);
    return `https://${await listen(serve(createHttpsServer(certificate)))}`;
  }

  it.each(['length', 'chunked', 'gzip'])('with %s is right, for several readers together', async (path) => {
    const address = await origin();
    const connections = connectTo(address);
    const readers = [false, true, true].map((isSlow) => read(connections, `${address}/${path}`, isSlow));
    for (const { digest } of await Promise.all(readers)) expect(digest).toBe(DIGEST);
  });

  it('is read into few buffers, also by a slow reader', async () => {
    const address = await origin();
    for (const isSlow of [false, true]) {
      const { pieces, buffers } = await read(connectTo(address), `${address}/length`, isSlow);
      // A busy machine lets more pieces wait, so the count has no fixed limit; without reuse each piece would have its own buffer.
      expect(buffers).toBeLessThan(pieces / 3);
    }
  });
});

describe('a body', () => {
  it('that passes a proxy is right', async () => {
    const address = `http://${await listen(serve(createServer()))}`;
    const proxy = createServer(({ url = '' }, response) => {
      httpRequest(url, (answer) => answer.pipe(response)).end();
    });
    vi.stubEnv('HTTP_PROXY', await listen(proxy));
    vi.stubEnv('NO_PROXY', undefined);
    vi.stubEnv('no_proxy', undefined);
    expect((await read(connectTo(address), `${address}/length`)).digest).toBe(DIGEST);
  });

  it('makes the service wait for a slow reader', async () => {
    const sizeBytes = 64 * 1024 * 1024;
    const sockets: Socket[] = [];
    const answer = await ask((request, response) => {
      sockets.push(request.socket);
      response.end(Buffer.alloc(sizeBytes));
    });
    await once(answer.body, 'readable');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(sockets[0]?.writableLength).toBeGreaterThan(sizeBytes / 2);
    let cameBytes = 0;
    for await (const piece of piecesOf(answer)) cameBytes += piece.length;
    expect(cameBytes).toBe(sizeBytes);
  });
});

describe('an exchange', () => {
  it('does not treat early hints as the response, and joins headers of one name', async () => {
    const answer = await ask((_request, response) => {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      response.writeHead(200, { 'x-header': ['a', 'b'] }).end('well');
    });
    expect([answer.status, await textOf(answer)]).toEqual([200, 'well']);
    expect(answer.headers['x-header']).toBe('a, b');
  });

  const reason = new Error('enough');

  it('that is abandoned during the response ends its body', async () => {
    const abandon = new AbortController();
    const answer = await ask((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('012');
    }, abandon.signal);
    await once(answer.body, 'readable');
    abandon.abort(reason);
    await expect(textOf(answer)).rejects.toBe(reason);
    expect(getEventListeners(abandon.signal, 'abort')).toHaveLength(0);
  });

  it('that its reader leaves ends the connection', async () => {
    let closed: Promise<unknown> | undefined;
    const { body } = await ask((request, response) => {
      closed = once(request.socket, 'close');
      response.writeHead(200, { 'content-length': 10 });
      response.write('012');
    });
    body.destroy();
    await closed;
  });

  it('that breaks off during the response fails its body, and an unread failure does not end the program', async () => {
    const abandon = new AbortController();
    const answer = await ask((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('012', () => response.destroy());
    }, abandon.signal);
    await new Promise((resolve) => answer.body.once('close', resolve));
    await expect(textOf(answer)).rejects.toThrow();
    expect(getEventListeners(abandon.signal, 'abort')).toHaveLength(0);
  });
});
