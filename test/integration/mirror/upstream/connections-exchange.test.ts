import { getEventListeners, once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { Socket } from 'node:net';

import { Agent } from 'undici';
import { describe, expect, it, onTestFinished } from 'vitest';

import { exchange, ReceiveBuffers } from '../../../../src/mirror/upstream/connections.ts';
import { listen } from '../../../support/listen.ts';

const MOST_PIECES = 4;

/** Asks a server that does as it is told. */
async function ask(
  listener: RequestListener,
  signal: AbortSignal = new AbortController().signal,
  body?: string,
): ReturnType<typeof exchange> {
  const address = await listen(createServer(listener));
  const agent = new Agent({ allowH2: false, connections: 1 });
  onTestFinished(() => agent.destroy());
  const url = new URL(`http://${address}/a/b?c=d`);
  return exchange(agent, url, { headers: { x: 'y' }, body, signal }, new ReceiveBuffers(1024), MOST_PIECES);
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

describe('an exchange', () => {
  it.each([undefined, '{"a":1}'])('brings what was asked, and the answer (%s)', async (sent) => {
    const { status, headers, body } = await ask(
      (request, response) => {
        const { method = '', url = '', headers: asked } = request;
        response.writeHead(201, { 'x-header': 'value', 'set-cookie': ['a', 'b'] });
        void textOf(request).then((text) => response.end(`${method} ${url} ${String(asked['x'])} ${text}`));
      },
      undefined,
      sent,
    );
    expect([status, headers['x-header'], headers['set-cookie']]).toEqual([201, 'value', ['a', 'b']]);
    expect(await textOf(body)).toBe(`${sent === undefined ? 'GET' : 'POST'} /a/b?c=d y ${sent ?? ''}`);
  });

  it('takes no word beforehand for the answer', async () => {
    const { status, body } = await ask((_request, response) => {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      response.end('well');
    });
    expect([status, await textOf(body)]).toEqual([200, 'well']);
  });

  it('makes the service wait for a slow reader, and joins no pieces', async () => {
    const sizeBytes = 64 * 1024 * 1024;
    const sockets: Socket[] = [];
    const { body } = await ask((request, response) => {
      sockets.push(request.socket);
      response.end(Buffer.alloc(sizeBytes));
    });
    await once(body, 'readable');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(body.readableLength).toBeLessThanOrEqual(MOST_PIECES);
    expect(sockets[0]?.writableLength).toBeGreaterThan(sizeBytes / 2);
    let cameBytes = 0;
    for await (const piece of body as AsyncIterable<Uint8Array>) {
      expect(piece.length).toBeGreaterThan(0);
      expect(piece.length).toBeLessThanOrEqual(2 * 64 * 1024);
      cameBytes += piece.length;
    }
    expect(cameBytes).toBe(sizeBytes);
  });
});

describe('an exchange that is abandoned', () => {
  const reason = new Error('enough');

  it('before it begins is not sent', async () => {
    let requests = 0;
    const asked = ask((_request, response) => {
      requests += 1;
      response.end();
    }, AbortSignal.abort(reason));
    await expect(asked).rejects.toBe(reason);
    expect(requests).toBe(0);
  });

  it('before the answer comes fails as it was abandoned', async () => {
    const abandon = new AbortController();
    await expect(ask(() => abandon.abort(reason), abandon.signal)).rejects.toBe(reason);
    expect(getEventListeners(abandon.signal, 'abort')).toHaveLength(0);
  });

  it.each([true, false])('within the answer ends its body, all of which came: %s', async (isWhole) => {
    const abandon = new AbortController();
    const { body } = await ask((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write(isWhole ? '0123456789' : '012');
    }, abandon.signal);
    await once(body, 'readable');
    abandon.abort(reason);
    await expect(textOf(body)).rejects.toBe(reason);
    expect(getEventListeners(abandon.signal, 'abort')).toHaveLength(0);
  });

  it('by its reader ends the connection, and tells nobody', async () => {
    let closed: Promise<unknown> | undefined;
    const { body } = await ask((request, response) => {
      closed = once(request.socket, 'close');
      response.writeHead(200, { 'content-length': 10 });
      response.write('012');
    });
    body.destroy();
    await closed;
  });
});

describe('an exchange that breaks off', () => {
  it('before the answer fails', async () => {
    await expect(ask(({ socket }) => socket.destroy())).rejects.toThrow('other side closed');
  });

  it('within the answer fails its body, and the program goes on where nobody reads it', async () => {
    const abandon = new AbortController();
    const { body } = await ask((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('012', () => response.destroy());
    }, abandon.signal);
    await new Promise((resolve) => body.once('close', resolve));
    await expect(textOf(body)).rejects.toThrow();
    expect(getEventListeners(abandon.signal, 'abort')).toHaveLength(0);
  });

  it('is told to who reads', async () => {
    const { body } = await ask((_request, response) => {
      response.writeHead(200, { 'content-length': 10 });
      response.write('012', () => response.destroy());
    });
    await expect(textOf(body)).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
  });
});
