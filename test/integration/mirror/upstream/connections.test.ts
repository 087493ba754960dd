import { createServer as createHttpServer, request as httpRequest, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { mayBeDone, transportError } from '../../../../src/mirror/upstream/failures.ts';
import { createPoster } from '../../../../src/daemon/hooks/post.ts';
import { piecesOf } from '../../../../src/mirror/upstream/connections.ts';
import type { Answer } from '../../../../src/mirror/upstream/answers.ts';
import { Transport } from '../../../../src/mirror/upstream/transport.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { listen, makeCertificate, trust } from '../../../support/listen.ts';

const PASSWORD = 'password-of-the-proxy';

beforeEach(() => {
  for (const name of ['http_proxy', 'https_proxy', 'all_proxy', 'no_proxy']) {
    vi.stubEnv(name, undefined);
    vi.stubEnv(name.toUpperCase(), undefined);
  }
});

const answers: RequestListener = (_request, response) => {
  response.end('{}');
};

/** A server with TLS whose certificate, by an authority of its own, has the name. */
async function listenWithTls(name: string): Promise<{ address: string; certificate: string }> {
  const made = await makeCertificate(name);
  return { address: await listen(createHttpsServer(made, answers)), certificate: made.cert };
}

/** A proxy that accepts requests, or refuses them with a status. */
async function listenAsProxy(status = 200): Promise<{ address: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createHttpServer((asking, response) => {
    asked.push(asking.url ?? '');
    if (status !== 200) return response.writeHead(status).end();
    return httpRequest(asking.url ?? '', (answer) => answer.pipe(response)).end();
  });
  server.on('connect', ({ url = '' }, socket: Socket) => {
    asked.push(url);
    if (status !== 200) return socket.end(`HTTP/1.1 ${status} No\r\n\r\n`);
    const [host, port] = url.split(':');
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    return onward.on('error', () => socket.destroy());
  });
  return { address: await listen(server), asked };
}

/** Asks for a list as the client does. */
async function ask(
  baseUrl: string,
  read: (answer: Answer) => Promise<number> = ({ status }) => Promise.resolve(status),
): Promise<number> {
  const transport = new Transport({
    baseUrl: `${baseUrl}/api`,
    keys: (generation) => (generation === 'current' ? ['any-api-key'] : []),
    keyMemory: {},
    timeoutMs: 5000,
    connections: 2,
    pause: {},
  });
  onTestFinished(() => transport.close());
  const { signal } = new AbortController();
  return transport.send({ generation: 'current', target: '/repos', signal }, read);
}

/** The result of asking. */
async function failure(baseUrl: string): Promise<MirrorError> {
  const error: unknown = await ask(baseUrl).catch((thrown: unknown) => thrown);
  if (!(error instanceof MirrorError)) throw new Error(`no failure: ${String(error)}`);
  expect(error.code).toBe('service.unreachable');
  expect(`${error.message} ${error.hint ?? ''}`).not.toContain(PASSWORD);
  expect(error.message).not.toMatch(/SSL routines|openssl|\n/);
  return error;
}

/** An address at which nothing listens. */
async function deadAddress(): Promise<string> {
  const server = createServer();
  const address = await listen(server);
  server.close();
  return address;
}

describe('a service', () => {
  it('that speaks plain HTTP instead of TLS is reported', async () => {
    const address = await listen(createHttpServer(answers));
    const { message, hint } = await failure(`https://${address}`);
    expect(message).toMatch(`https://${address} does not speak TLS, but most likely plain HTTP`);
    expect(hint).toContain(`http://${address}`);
  });

  it('that speaks TLS instead of plain HTTP is named as a possible reason', async () => {
    const server = await listenWithTls('localhost');
    expect((await failure(`http://${server.address}`)).hint).toContain(`https://${server.address}`);
  });

  it('whose authority is unknown is reported, with a remedy', async () => {
    const server = await listenWithTls('localhost');
    const { message, hint } = await failure(`https://${server.address}`);
    expect(message).toMatch(/^The certificate of https:\S+ is refused: .*\(DEPTH_ZERO_SELF/);
    expect(hint).toMatch(/NODE_EXTRA_CA_CERTS.*update-ca-certificates/);
  });

  it('whose certificate has other names is reported with the names', async () => {
    const server = await listenWithTls('other.test');
    trust(server.certificate);
    const { message, hint } = await failure(`https://${server.address}`);
    expect(message).toContain('DNS:other.test');
    expect(hint).toContain('service.baseUrl');
  });

  it.each([
    ['CERT_HAS_EXPIRED', 'renewed'],
    ['CERT_NOT_YET_VALID', 'clock'],
  ])('whose certificate is expired or not yet valid, by %s, is reported', (code, help) => {
    const error = Object.assign(new Error('it is out of its time'), { code });
    expect(transportError(error, new URL('https://a.test/api/repos'))).toMatchObject({
      message: `The certificate of https://a.test is refused: it is out of its time (${code}).`,
      hint: expect.stringContaining(help) as string,
    });
  });
});

describe('a proxy', () => {
  it('is used for plain HTTP and for TLS, with a scheme or without', async () => {
    const server = await listenWithTls('localhost');
    const plain = await listen(createHttpServer(answers));
    const proxy = await listenAsProxy();
    vi.stubEnv('HTTP_PROXY', proxy.address);
    vi.stubEnv('https_proxy', `http://user:${PASSWORD}@${proxy.address}`);
    expect(await ask(`http://${plain}`)).toBe(200);
    await failure(`https://${server.address}`);
    expect(proxy.asked).toEqual([`http://${plain}/api/repos`, server.address]);
    vi.stubEnv('NO_PROXY', 'localhost');
    expect(await ask(`http://${plain}`)).toBe(200);
    expect(proxy.asked).toHaveLength(2);
  });

  it.each(['http', 'https'])('that is dead is named, without its password, for %s', async (scheme) => {
    const dead = await deadAddress();
    const variable = `${scheme.toUpperCase()}_PROXY`;
    vi.stubEnv(variable, `http://user:${PASSWORD}@${dead}`);
    // The port of the other scheme is no exception.
    vi.stubEnv('NO_PROXY', `workbooks.test:${scheme === 'https' ? 80 : 443}`);
    const error = await failure(`${scheme}://workbooks.test`);
    expect(error.message).toBe(
      `The proxy http://${dead} (${variable}) does not answer: connect ECONNREFUSED ${dead.replace('localhost', '127.0.0.1')} (ECONNREFUSED).`,
    );
    expect(error.hint).toContain('NO_PROXY');
    expect(mayBeDone(error)).toBe(false);
  });

  it.each([
    ['http', 407, 'user:password'],
    ['https', 407, 'user:password'],
    ['https', 403, 'NO_PROXY'],
    ['https', 502, 'NO_PROXY'],
  ])('that refuses %s with status %i is reported: %s', async (scheme, status, help) => {
    const { address } = await listenAsProxy(status);
    vi.stubEnv('ALL_PROXY', address);
    const error = await failure(`${scheme}://workbooks.test`);
    expect(error.message).toBe(
      `The proxy http://${address} (ALL_PROXY) does not lead to ${scheme}://workbooks.test (status ${status}).`,
    );
    expect(error.hint).toContain(help);
    expect(mayBeDone(error)).toBe(false);
  });

  it('that hangs up is named', async () => {
    const address = await listen(createServer((socket) => socket.destroy()));
    vi.stubEnv('HTTPS_PROXY', address);
    expect((await failure('https://workbooks.test')).message).toContain(`http://${address} (HTTPS_PROXY)`);
  });

  it.each(['ftp://proxy.test', 'http://', `http://user:50%${PASSWORD}@proxy.test`])(
    'cannot be %s, and that ends no program',
    async (given) => {
      vi.stubEnv('HTTPS_PROXY', given);
      expect((await failure('https://workbooks.test')).message).toBe(
        'The variable HTTPS_PROXY does not hold the address of a proxy.',
      );
    },
  );

  it('that is dead is named if a webhook is not reached', async () => {
    const dead = await deadAddress();
    vi.stubEnv('HTTP_PROXY', dead);
    const poster = createPoster(5000);
    onTestFinished(poster.close);
    const sent = { method: 'POST', address: 'http://hook.test/secret' } as const;
    await expect(poster.send(sent, new AbortController().signal)).rejects.toMatchObject({
      code: 'notification.failed',
      message: expect.stringContaining(`http://${dead} (HTTP_PROXY)`) as string,
    });
  });
});

// At one of these sizes the last piece is the one that makes undici wait for the reader.
it.each([3, 4, 5, 6, 7])(
  'a body that arrived before the service closed the connection is read completely, at any delay (%i reads)',
  async (reads) => {
    const body = Buffer.alloc(reads * 128 * 1024, 'x');
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`;
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(Buffer.concat([Buffer.from(head), body])));
    });
    const sizeBytes = await ask(`http://${await listen(server)}`, async (answer) => {
      let readBytes = 0;
      for await (const piece of piecesOf(answer)) {
        if (readBytes === 0) await sleep(200);
        readBytes += piece.length;
      }
      return readBytes;
    });
    expect(sizeBytes).toBe(body.length);
  },
);
