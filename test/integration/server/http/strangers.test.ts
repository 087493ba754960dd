import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { fixedKey } from '../../../../src/server/keys/keys.ts';
import type { Changes } from '../../../../src/server/git/library.ts';
import type { Library } from '../../../../src/server/http/library.ts';
import { createService, type ServiceOptions } from '../../../../src/server/http/service.ts';
import { ask } from '../../../support/listen.ts';

/** The requests that clients without a key can make. */

const KEY = 'a-key-of-the-tests';
const KEYS = [fixedKey('personal', 'Anna', KEY), fixedKey('token', 'Anna', 'a-token-of-the-tests')];

/** Starts an empty service, whose library must not be asked by strangers. @returns its port and the questions to its library */
async function serve(options: Partial<ServiceOptions> = {}): Promise<{ port: number; asked: () => number }> {
  const repositories = vi.fn(() => Promise.resolve([]));
  const workbooks = vi.fn(() => Promise.resolve({ rows: [], statusOf: vi.fn() }));
  const library = { repositories, workbooks, content: vi.fn() } as unknown as Library;
  const service = createService({
    library,
    changes: {} as Changes,
    keys: () => Promise.resolve(KEYS),
    ...options,
  });
  onTestFinished(() => service.close());
  const { port } = await service.listen({ host: '127.0.0.1', port: 0 });
  return { port, asked: () => repositories.mock.calls.length + workbooks.mock.calls.length };
}

describe('a client without a key', () => {
  // These requests are malformed; a client with a key gets the given status.
  it.each([
    ['/api/repos/%ff/contents', 'GET', 400],
    ['/api/repos/x/contents/%zz', 'GET', 400],
    ['/git/%ff.git/info/refs?service=git-upload-pack', 'GET', 400],
    ['/git/x.git/info/refs?service=none', 'GET', 404],
    ['/git/x.git/git-receive-pack', 'GET', 404],
    ['/api/repos', 'POST', 400],
  ])('is refused %s before it is read', async (path, method, status) => {
    const served = await serve();
    const basic = `Basic ${Buffer.from(`anyone:${KEY}`).toString('base64')}`;
    expect((await ask(served, path, {}, method)).status).toBe(401);
    expect((await ask(served, path, { 'x-api-key': 'x', authorization: 'Basic eDp4' }, method)).status).toBe(
      401,
    );
    expect(served.asked()).toBe(0);
    expect((await ask(served, path, { 'x-api-key': KEY, authorization: basic }, method)).status).toBe(status);
  });

  it('loses its connection if it goes on with a refused body', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    const { port } = await serve();
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    onTestFinished(() => void socket.destroy());
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write('POST /api/repos HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n{');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /);
    socket.resume().write('"name"');
    expect(socket.closed).toBe(false);
    // Node ends a silent connection after an answer as well: a sender puts that off.
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(30_000);
    await closed;
  });

  it('has at most 200 connections', async () => {
    const { port } = await serve();
    const sockets: Socket[] = [];
    for (let count = 0; count < 250; count += 1) {
      const socket = connect(port, '127.0.0.1').on('error', () => {});
      onTestFinished(() => void socket.destroy());
      await once(socket, 'connect');
      sockets.push(socket.resume());
    }
    await expect.poll(() => sockets.filter(({ closed }) => !closed).length).toBe(200);
    for (const socket of sockets) socket.destroy();
    const answer = () => ask({ port }, '/api/repos', { 'x-api-key': KEY }).catch(() => null);
    await expect.poll(answer).toMatchObject({ status: 200 });
  });
});
