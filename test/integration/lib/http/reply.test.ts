import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { gunzipSync } from 'node:zlib';

import { describe, expect, it } from 'vitest';

import { packableBody, type Reply, sendReply } from '../../../../src/lib/http/reply.ts';
import { loadPage } from '../../../../src/lib/http/page-files.ts';
import { listen } from '../../../support/listen.ts';

/** The errors of replies that had begun. */
const failures: unknown[] = [];

/** Serves one reply; if it cannot be sent, the reason is sent with status 500. @returns the port */
async function serve(reply: Reply): Promise<number> {
  const server = createServer((asked, response) => {
    sendReply(asked, response, reply).catch((error: unknown) => {
      if (response.headersSent) failures.push(error);
      else response.writeHead(500).end(String(error));
    });
  });
  return Number((await listen(server)).split(':')[1]);
}

async function ask(port: number, method = 'GET', headers: Readonly<Record<string, string>> = {}) {
  const asked = request({ host: '127.0.0.1', port, method, headers, agent: false }).end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return { response, bytes: response.toArray().then((chunks) => Buffer.concat(chunks as Buffer[])) };
}

/** A reply whose bytes fail. @param sentBytes so many come before */
function failing(sentBytes: number, opened: () => void = () => {}): Reply {
  async function* open(): AsyncIterable<Uint8Array> {
    opened();
    if (sentBytes > 0) yield Buffer.alloc(sentBytes);
    throw new Error('it went');
  }
  return { status: 200, headers: {}, body: { open } };
}

describe('a reply that is streamed', () => {
  it('does not begin if it fails before its first bytes', async () => {
    const { response, bytes } = await ask(await serve(failing(0)));
    expect([response.statusCode, String(await bytes)]).toEqual([500, 'Error: it went']);
  });

  it('breaks off visibly if it fails later', async () => {
    const port = await serve(failing(10));
    // The bytes sent before may not have left yet.
    await expect(ask(port).then(({ bytes }) => bytes)).rejects.toThrow(/aborted|hang up/);
    expect(failures).toEqual([new Error('it went')]);
  });

  it('ends when its client leaves before the first bytes', async () => {
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    async function* open(): AsyncIterable<Uint8Array> {
      try {
        yield Buffer.alloc(64 * 1024 ** 2);
        yield Buffer.alloc(1);
      } finally {
        end();
      }
    }
    const { response, bytes } = await ask(await serve({ status: 200, headers: {}, body: { open } }));
    response.destroy();
    await expect(bytes).rejects.toThrow();
    await ended;
  });

  it('is not made for a request for the head alone', async () => {
    let opened = 0;
    const { response } = await ask(await serve(failing(0, () => (opened += 1))), 'HEAD');
    expect([response.statusCode, opened]).toEqual([200, 0]);
  });
});

describe('a page', () => {
  it('that is missing fails the start', async () => {
    await expect(loadPage('nowhere', 'the page')).rejects.toMatchObject({ code: 'http.unusable' });
  });

  it('is compressed for clients that accept it, with the same tag', async () => {
    const script = 'server/uploads/page/page.js';
    const page = await loadPage('server/uploads/page', 'the page');
    expect([...page.keys()]).toEqual(expect.arrayContaining(['index.html', script, 'lib/page/text.js']));
    expect(page.has('server/uploads/page/tsconfig.json')).toBe(false);
    const port = await serve({ status: 200, headers: {}, body: page.get(script) ?? null });
    const plain = await ask(port);
    const packed = await ask(port, 'GET', { 'accept-encoding': 'gzip' });
    expect(packed.response.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'accept-encoding' });
    expect(gunzipSync(await packed.bytes)).toEqual(await plain.bytes);
    const { etag = '' } = plain.response.headers;
    expect([etag.slice(0, 3), packed.response.headers.etag]).toEqual(['W/"', etag]);
    expect((await ask(port, 'GET', { 'if-none-match': etag })).response.statusCode).toBe(304);
  });

  it('is sent uncompressed if it is short', async () => {
    const port = await serve({ status: 200, headers: {}, body: packableBody('text/plain', 'short', 'x') });
    const { response } = await ask(port, 'GET', { 'accept-encoding': 'gzip' });
    expect([response.headers['content-encoding'], response.headers.vary]).toEqual([undefined, undefined]);
  });
});
