import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { connect, type Socket } from 'node:net';

import { describe, expect, it, onTestFinished } from 'vitest';

import { limitConnections } from '../../../../src/lib/http/connections.ts';
import { cutUnreadBodies } from '../../../../src/lib/http/unread-bodies.ts';

const LIMITS = { most: 10, mostKept: 6 };

interface Limited {
  readonly port: number;
  /** How many requests are being answered; those that ask for `/kept` are kept. */
  readonly answering: () => number;
  readonly finish: () => void;
}

/** A server that answers at once, but for `/slow` and `/kept`, which wait. */
async function listen(): Promise<Limited> {
  const server = createServer();
  const connections = limitConnections(server, LIMITS);
  cutUnreadBodies(server);
  const waiting = new Set<() => void>();
  server.on('request', (asked, response) => {
    const isRefused = asked.url === '/kept' && !connections.keep(asked, response);
    if (isRefused) response.statusCode = 503;
    const end = (): void => {
      waiting.delete(end);
      response.end(asked.url);
    };
    response.once('close', () => waiting.delete(end));
    if (isRefused || asked.url === '/quick') end();
    else waiting.add(end);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    answering: () => waiting.size,
    finish: () => {
      for (const end of waiting) end();
    },
  };
}

/** Opens a connection from one of this machine's addresses, and sends some text on it. */
async function open(port: number, text = '', localAddress = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  socket.resume();
  await once(socket, 'connect');
  if (text !== '') socket.write(text);
  return socket;
}

function get(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
}

/** The status code of a request with a connection of its own; null where that is cut. */
function statusOf(port: number, path: string, localAddress = '127.0.0.1'): Promise<number | null> {
  return new Promise((resolve) => {
    const asked = request({ host: '127.0.0.1', port, path, agent: false, localAddress }, (response) => {
      response.resume();
      resolve(response.statusCode ?? null);
    });
    onTestFinished(() => void asked.destroy());
    asked.on('error', () => resolve(null));
    asked.end();
  });
}

function areOpen(sockets: readonly Socket[]): boolean[] {
  return sockets.map((socket) => !socket.closed);
}

describe('connections beyond the limit', () => {
  it('take the places of those that have waited for longest', async () => {
    const { port } = await listen();
    const sockets: Socket[] = [];
    for (let count = 0; count < LIMITS.most; count += 1) sockets.push(await open(port));
    // The first one is used, and is then the last to wait.
    sockets[0]?.write(get('/quick'));
    if (sockets[0] !== undefined) await once(sockets[0], 'data');
    expect(await statusOf(port, '/quick')).toBe(200);
    expect(await statusOf(port, '/quick')).toBe(200);
    await expect.poll(() => areOpen(sockets).slice(0, 3)).toEqual([true, false, true]);
    for (let count = 0; count < 30; count += 1) {
      await open(port, 'GET /slow HTTP/1.1\r\nHost: lo');
      expect(await statusOf(port, '/quick')).toBe(200);
    }
  });

  it('take those of whoever has most of them', async () => {
    const { port } = await listen();
    const other = await open(port, '', '127.0.0.2');
    for (let count = 0; count < 40; count += 1) await open(port);
    expect(other.closed).toBe(false);
    other.write(get('/quick'));
    await once(other, 'data');
  });

  it('cut none that is kept, and others that are answered only where no other is left', async () => {
    const { port, answering, finish } = await listen();
    const kept: Socket[] = [];
    for (let count = 0; count < LIMITS.mostKept; count += 1) kept.push(await open(port, get('/kept')));
    await expect.poll(answering).toBe(6);
    expect(await statusOf(port, '/kept')).toBe(503);
    const slow = await open(port, get('/slow'));
    await expect.poll(answering).toBe(7);
    for (let count = 0; count < 20; count += 1) await open(port);
    expect(slow.closed).toBe(false);
    const slower: Socket[] = [];
    for (let count = 8; count <= LIMITS.most; count += 1) {
      slower.push(await open(port, get('/slow')));
      await expect.poll(answering).toBe(count);
    }
    expect(await statusOf(port, '/quick')).toBe(200);
    await expect.poll(() => slow.closed).toBe(true);
    expect(areOpen([...kept, ...slower])).toEqual(Array.from({ length: 9 }, () => true));
    finish();
    const next = statusOf(port, '/kept');
    await expect.poll(answering).toBe(1);
    finish();
    expect(await next).toBe(200);
  });

  it('may have some requests at once, and are cut with more', async () => {
    const { port, answering, finish } = await listen();
    const some = await open(port, get('/slow').repeat(16));
    await expect.poll(answering).toBe(16);
    finish();
    await expect.poll(answering).toBe(0);
    some.write(get('/slow').repeat(16));
    await expect.poll(answering).toBe(16);
    some.write(get('/slow'));
    await expect.poll(() => some.closed).toBe(true);
    expect(await statusOf(port, '/quick')).toBe(200);
  });

  it('count those that are kept right, however they end', async () => {
    const { port, answering, finish } = await listen();
    for (let round = 0; round < 3; round += 1) {
      const sockets: Socket[] = [];
      for (let count = 0; count < LIMITS.mostKept; count += 1)
        sockets.push(await open(port, get('/kept') + get('/kept')));
      await expect.poll(answering).toBe(2 * LIMITS.mostKept);
      if (round === 1) finish();
      else for (const socket of sockets) socket.destroy();
      await expect.poll(answering).toBe(0);
      for (const socket of sockets) socket.destroy();
    }
    const last = statusOf(port, '/kept');
    await expect.poll(answering).toBe(1);
    finish();
    expect(await last).toBe(200);
  });
});

describe('a body that nobody reads', () => {
  it('is cut when it does not end', async () => {
    const { port } = await listen();
    const head = 'POST /quick HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n';
    const silent = await open(port, head);
    const much = await open(port, head);
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
    const cut = new Promise((resolve) => much.once('close', resolve));
    const send = (): void => {
      while (!much.destroyed && much.write(chunk));
    };
    much.on('drain', send);
    send();
    await cut;
    expect(much.bytesWritten).toBeGreaterThan(1024 * 1024);
    await once(silent, 'close');
  });

  it('that ends leaves the connection as it was', async () => {
    const { port } = await listen();
    const socket = await open(port);
    for (let count = 0; count < 3; count += 1) {
      socket.write('POST /quick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n');
      await once(socket, 'data');
      socket.write('x'.repeat(100_000));
    }
    socket.write(get('/quick'));
    await once(socket, 'data');
    expect(socket.closed).toBe(false);
  });
});
