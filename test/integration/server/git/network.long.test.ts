import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { type AddressInfo, BlockList, connect, createServer as createTcpServer, isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { describeFetch } from '../../../../src/server/start/notices.ts';
import { makeCommits } from '../../../../src/server/demo/commits.ts';
import { initialise } from '../../../../src/server/git/bare.ts';
import { isLinkLocal, type Lookup } from '../../../../src/server/git/dialing.ts';
import type { FetchEvent } from '../../../../src/server/external/fetches.ts';
import { createForwardProxy, type ForwardProxyOptions } from '../../../../src/server/git/forward-proxy.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/registry.ts';
import { askRemote } from '../../../../src/server/external/remote.ts';
import { type GitHttpServer, startGitHttpServer } from '../../../support/git-http-server.ts';
import { createGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** For machines that are busy with other tests. */
const PATIENCE = { timeout: 30_000 };
const KEY = 'a-key-of-the-tests';
const run = promisify(execFile);
const git = new Git();

/** What every address is answered with that no connection is made to. */
const UNCONNECTED = [
  422,
  {
    error: {
      code: 'unreachable',
      message:
        'url: the repository cannot be read: no connection to its server can be made.' +
        " Check the address, and that the service's machine reaches it.",
    },
  },
];

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addSubnet('0.0.0.0', 8, 'ipv4');
loopback.addSubnet('::', 127, 'ipv6');

type IsRefused = (address: string) => boolean;

const LOOPBACK: IsRefused = (address) => loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
const LOOPBACK_BUT_FIRST: IsRefused = (address) => address !== '127.0.0.1' && LOOPBACK(address);
const ANYTHING: IsRefused = () => false;
const NOTHING: IsRefused = () => true;

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === '::1'),
);

/** Names that no other test asks for; what is none of them has no address. */
const NAMES: ReadonlyMap<string, readonly string[]> = new Map([
  ['git.test', ['127.0.0.1']],
  ['mapped.test', ['::ffff:127.0.0.1']],
  ['several.test', ['169.254.169.254', '127.0.0.1']],
  ['metadata.test', ['169.254.169.254', 'fe80::1%lo']],
]);

const lookup: Lookup = async (host) => {
  const addresses = NAMES.get(host);
  if (addresses === undefined) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' });
  return addresses;
};

let root = '';
let events: FetchEvent[] = [];

/** Options for connections that fail at once. */
function network(isRefused: IsRefused, more: Partial<ForwardProxyOptions> = {}): ForwardProxyOptions {
  return { isRefused, lookup, variables: {}, leastFailureMs: 0, ...more };
}

interface Started {
  readonly registry: Registry;
  readonly create: (url: string) => Promise<[number, unknown]>;
  readonly ask: (path: string) => Promise<Response>;
}

async function start(options: ForwardProxyOptions): Promise<Started> {
  const registry = await openRegistry(join(root, 'data'), {
    sources: 'any',
    network: options,
    onEvent: (event) => events.push(event),
  });
  const service = createGitService({ registry, apiKey: KEY });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => service.close().then(() => registry.close()));
  const headers = { 'x-api-key': KEY };
  return {
    registry,
    create: async (url) => {
      const init = { method: 'POST', headers, body: JSON.stringify({ url }) };
      const answer = await fetch(`${baseUrl}/repos`, init);
      return [answer.status, await answer.json()];
    },
    ask: (path) => fetch(baseUrl + path, { headers }),
  };
}

const told = (): string[] => events.map(describeFetch);

async function serverOfRepository(
  options: Parameters<typeof startGitHttpServer>[2] = {},
): Promise<GitHttpServer> {
  return startGitHttpServer(join(root, 'host'), undefined, options);
}

async function commit(content: string): Promise<void> {
  const changes = [{ kind: 'write', path: 'plan.xlsx', content }] as const;
  const author = { name: 'A', email: 'a@example.com' };
  const at = new Date('2026-01-02T03:04:05Z');
  const [from] = (await git.run(join(root, 'host', 'plan.git'), ['for-each-ref', '--format=x']))
    .toString()
    .split('\n');
  const more = from === 'x' ? { from: 'refs/heads/main^0' } : {};
  await makeCommits(git, join(root, 'host', 'plan.git'), [
    { branch: 'main', author, at, message: 'm\n', changes, ...more },
  ]);
}

/** Makes a forward proxy, and says which credentials it has given. */
function watchedProxy(options: ForwardProxyOptions) {
  const proxy = createForwardProxy(options);
  const urls: URL[] = [];
  onTestFinished(proxy.close);
  const open: typeof proxy.open = async () => {
    const passage = await proxy.open();
    urls.push(new URL(passage.url));
    return passage;
  };
  return { ...proxy, open, urls };
}

/** A port at which nothing listens. */
async function closedPort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

beforeEach(async () => {
  root = await temporaryFolder();
  events = [];
  await mkdir(join(root, 'host'), { recursive: true });
  await initialise(git, join(root, 'host', 'plan.git'));
  await commit('one');
});

describe('an address that the rules refuse', () => {
  it.each([
    'http://127.0.0.1:PORT/plan.git',
    'http://127.1:PORT/plan.git',
    'http://2130706433:PORT/plan.git',
    'http://0x7f000001:PORT/plan.git',
    'http://0177.0.0.1:PORT/plan.git',
    'http://0.0.0.0:PORT/plan.git',
    'http://0:PORT/plan.git',
    'http://[::1]:PORT/plan.git',
    'http://[::]:PORT/plan.git',
    'http://[::ffff:127.0.0.1]:PORT/plan.git',
    'http://[::ffff:7f00:1]:PORT/plan.git',
    'http://git.test:PORT/plan.git',
    'http://mapped.test:PORT/plan.git',
    'https://127.0.0.1:PORT/plan.git',
    'https://2130706433:PORT/plan.git',
    'https://[::1]:PORT/plan.git',
    'https://git.test:PORT/plan.git',
  ])('is not connected to, as %s', async (url) => {
    const server = await serverOfRepository();
    // What is no name of the tests is the system's to read, as 2130706433.
    const real: Lookup = (host) => (host.endsWith('.test') ? lookup(host) : Promise.resolve(['127.0.0.1']));
    const { create, registry } = await start(network(LOOPBACK, { lookup: real }));
    expect(await create(url.replace('PORT', String(server.port)))).toEqual(UNCONNECTED);
    expect(server.requests).toEqual([]);
    expect(registry.list()).toEqual([]);
    expect(told()).toEqual([
      expect.stringMatching(
        /cannot be connected: .* is link-local, and no repository is cloned from there\)/,
      ),
    ]);
  });

  it('is read by the system however it is written', async () => {
    const server = await serverOfRepository();
    const isRefused = LOOPBACK;
    const { create } = await start({ isRefused, variables: {}, leastFailureMs: 0 });
    for (const host of ['2130706433', '0x7f.1', '0177.0.0.1', 'localhost'])
      expect(await create(`http://${host}:${server.port}/plan.git`)).toEqual(UNCONNECTED);
    expect(told().join()).toMatch(/127\.0\.0\.1, an address of localhost, is link-local/);
    expect(server.requests).toEqual([]);
  });

  it('is told as one that does not answer, has no name, or answers too late', async () => {
    const options = network(isLinkLocal, {
      lookup: (host) => (host === 'slow.test' ? new Promise(() => {}) : lookup(host)),
      limitMs: 300,
    });
    const { create } = await start(options);
    const answers = [
      await create('https://169.254.169.254/plan.git'),
      await create('https://metadata.test/plan.git'),
      await create(`https://127.0.0.1:${await closedPort()}/plan.git`),
      await create(`http://git.test:${await closedPort()}/plan.git`),
      await create('https://none.test/plan.git'),
      await create('https://slow.test/plan.git'),
    ];
    for (const answer of answers) expect(answer).toEqual(UNCONNECTED);
    expect(told()).toEqual([
      expect.stringContaining('169.254.169.254 is link-local, and no'),
      expect.stringContaining('169.254.169.254, an address of metadata.test, is link-local'),
      expect.stringMatching(/no connection to 127\.0\.0\.1, port \d+ \(ECONNREFUSED\)/),
      expect.stringMatching(/no connection to 127\.0\.0\.1, port \d+ \(ECONNREFUSED\)/),
      expect.stringContaining('no address of none.test is known (ENOTFOUND)'),
      expect.stringContaining('no connection to slow.test, port 443, within 0.3 seconds'),
    ]);
  });

  it('is not led to by a redirect', async () => {
    const inner = await serverOfRepository(hasIpv6 ? { host: '::1' } : {});
    const outer = await serverOfRepository();
    outer.intercept = (asked, response) => {
      response.writeHead(302, { location: inner.origin + (asked.url ?? '') }).end();
      return true;
    };
    const address = `http://git.test:${outer.port}/plan.git`;
    const free = await start(network(ANYTHING));
    expect((await free.create(address))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
    await free.registry.close();
    inner.requests.length = 0;
    outer.requests.length = 0;
    if (!hasIpv6) return;
    root = join(root, 'other');
    const bound = await start(network(LOOPBACK_BUT_FIRST));
    expect(await bound.create(address)).toEqual(UNCONNECTED);
    expect(outer.requests).toHaveLength(1);
    expect(inner.requests).toEqual([]);
  });

  it('is not led to by a name that changes its address', async () => {
    const server = await serverOfRepository();
    let address = '127.0.0.1';
    const asked: string[] = [];
    const changing: Lookup = (host) => {
      asked.push(host);
      return Promise.resolve([address]);
    };
    const { create, registry, ask } = await start(network(LOOPBACK_BUT_FIRST, { lookup: changing }));
    const [status, created] = await create(`http://changing.test:${server.port}/plan.git`);
    expect(status).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
    // Each connection is made to what was looked up for it, and nothing is looked up but for that.
    expect(asked).toHaveLength(server.requests.length);
    const count = server.requests.length;
    address = '127.0.0.2';
    await commit('two');
    const { id } = created as { id: string };
    await expect(registry.fetches.fetch(id)).rejects.toMatchObject({
      trouble: 'unreachable',
      inside: '127.0.0.2, an address of changing.test, is link-local, and no repository is cloned from there',
    });
    expect(server.requests).toHaveLength(count);
    expect(await (await ask(`/repos/${id}/contents/plan.xlsx`)).text()).toBe('one');
  });

  it('is not told by what cannot be cloned, either', async () => {
    const server = await serverOfRepository();
    let addresses: readonly string[] = ['127.0.0.1'];
    const { create, ask } = await start(
      network(LOOPBACK_BUT_FIRST, { lookup: () => Promise.resolve(addresses) }),
    );
    // What comes first asks whether the repository is there.
    server.intercept = ({ method }) => {
      if (method === 'POST') addresses = ['127.0.0.2'];
      return false;
    };
    const [status, created] = await create(`http://changing.test:${server.port}/plan.git`);
    expect(status).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('127.0.0.2')]);
    const answer = await ask(`/repos/${(created as { id: string }).id}/contents`);
    expect(answer.status).toBe(503);
    const text = await answer.text();
    expect(text).toContain('the repository cannot be read: no connection to its server can be made;');
    expect(text).not.toMatch(/127\.0\.0\.2|link-local/);
  });
});

describe('an address that the rules let through', () => {
  it('is cloned and fetched from, where all others are refused', async () => {
    const server = await serverOfRepository();
    const { create, registry, ask } = await start(network((address) => address !== '127.0.0.1'));
    const [status, created] = await create(`${server.origin}/plan.git`);
    expect(status).toBe(201);
    const { id } = created as { id: string };
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
    await commit('two');
    await registry.fetches.fetch(id);
    expect(await (await ask(`/repos/${id}/contents/plan.xlsx`)).text()).toBe('two');
    if (hasIpv6) {
      const other = await serverOfRepository({ host: '::1' });
      expect(await create(`${other.origin}/plan.git`)).toEqual(UNCONNECTED);
      expect(other.requests).toEqual([]);
    }
  });

  it('is the only one of a name that is connected to', async () => {
    const server = await serverOfRepository();
    const { create } = await start(network(isLinkLocal));
    expect((await create(`http://several.test:${server.port}/plan.git`))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
  });

  it.skipIf(!hasIpv6)('may be of IPv6 (skipped without ::1)', async () => {
    const server = await serverOfRepository({ host: '::1' });
    const { create } = await start(network((address) => address !== '::1'));
    expect((await create(`${server.origin}/plan.git`))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
  });

  it('has its own errors told', async () => {
    const server = await serverOfRepository();
    const { create } = await start(network(ANYTHING));
    const [status, body] = await create(`${server.origin}/none.git`);
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining('not found')]);
    server.intercept = (_, response) => {
      response.writeHead(500).end();
      return true;
    };
    expect(JSON.stringify((await create(`${server.origin}/plan.git`))[1])).toContain('error: 500');
    expect(events).toEqual([]);
  });

  it('is none of the network where it is a path of this machine', async () => {
    const { create } = await start(network(NOTHING));
    expect((await create(join(root, 'host', 'plan.git')))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
  });

  it('is connected to by TLS, with the name that was asked for', async ({ skip }) => {
    const key = join(root, 'key.pem');
    const made = await run(
      'openssl',
      (
        'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=git.test' +
        ' -addext subjectAltName=DNS:git.test -keyout key.pem -out cert.pem'
      ).split(' '),
      { cwd: root },
    ).catch(() => null);
    if (made === null) return skip('openssl cannot make a certificate');
    const cert = await readFile(join(root, 'cert.pem'), 'utf8');
    const server = await serverOfRepository({ tls: { key: await readFile(key, 'utf8'), cert } });
    vi.stubEnv('GIT_SSL_CAINFO', join(root, 'cert.pem'));
    onTestFinished(() => void vi.unstubAllEnvs());
    const { create } = await start(network(LOOPBACK_BUT_FIRST));
    const [status, body] = await create(`https://127.0.0.1:${server.port}/plan.git`);
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringMatching(/SSL|certificate/)]);
    expect((await create(`https://git.test:${server.port}/plan.git`))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
    return undefined;
  });
});

describe('the way out', () => {
  it('is not passed by, whatever proxy the environment names', async () => {
    const server = await serverOfRepository();
    for (const name of ['NO_PROXY', 'no_proxy']) vi.stubEnv(name, '*');
    for (const name of ['http_proxy', 'HTTP_PROXY', 'ALL_PROXY']) vi.stubEnv(name, 'http://127.0.0.1:1');
    onTestFinished(() => void vi.unstubAllEnvs());
    const { create } = await start({ isRefused: LOOPBACK, leastFailureMs: 0 });
    expect(await create(`${server.origin}/plan.git`)).toEqual(UNCONNECTED);
    expect(server.requests).toEqual([]);
    const free = watchedProxy({ isRefused: ANYTHING });
    const remote = { protocol: 'http', origin: null, credentialFile: null, proxy: free } as const;
    const { ids } = await askRemote(git, { ...remote, source: `${server.origin}/plan.git` });
    expect(ids.size).toBe(1);
  });

  it('is closed to everyone else, and to everyone afterwards', async () => {
    const server = await serverOfRepository();
    const proxy = watchedProxy(network(ANYTHING));
    const passage = await proxy.open();
    const { port, username, password } = new URL(passage.url);
    const through = (authorization?: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const asked = request({
          host: '127.0.0.1',
          port,
          path: `${server.origin}/plan.git/info/refs?service=git-upload-pack`,
          agent: false,
          headers: authorization === undefined ? {} : { 'proxy-authorization': authorization },
        });
        asked.on('response', (response) => resolve(response.resume().statusCode)).on('error', reject);
        asked.end();
      });
    const right = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    expect(await through()).toBe(407);
    expect(await through('Basic Z2l0OmdpdA==')).toBe(407);
    expect(server.requests).toEqual([]);
    expect(await through(right)).toBe(200);
    passage.close();
    expect(await through(right)).toBe(407);
    await proxy.close();
    await expect(through(right)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await expect(proxy.open()).rejects.toThrow(/closing/);
  });

  it('leads to servers only, and only by what git sends', async () => {
    const proxy = watchedProxy(network(ANYTHING));
    const { url } = await proxy.open();
    const { port, username, password } = new URL(url);
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    const say = async (line: string): Promise<string> => {
      const socket = connect(Number(port), '127.0.0.1');
      socket.end(`${line} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: ${authorization}\r\n\r\n`);
      const [first] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      return first.toString('latin1').split('\r\n')[0] ?? '';
    };
    expect(await say('GET /')).toContain('400');
    expect(await say('GET https://git.test/')).toContain('400');
    expect(await say('GET file:///etc/passwd')).toContain('400');
    expect(await say('CONNECT git.test')).toContain('400');
    expect(await say('CONNECT git.test:99999')).toContain('400');
    expect(await say('CONNECT none.test:1')).toContain('502');
  });

  it('leads to no address that is written in another way, where that is refused', async () => {
    const server = await serverOfRepository();
    const isRefused = LOOPBACK;
    const proxy = createForwardProxy({ isRefused, variables: {}, leastFailureMs: 0 });
    onTestFinished(proxy.close);
    const passage = await proxy.open();
    const { port, username, password } = new URL(passage.url);
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    for (const host of ['2130706433', '0x7f.1', '017700000001', '127.1', '0', '[::ffff:7f00:1]']) {
      const asked = request({
        host: '127.0.0.1',
        port,
        method: 'CONNECT',
        path: `${host}:${server.port}`,
        headers: { 'proxy-authorization': authorization },
      }).end();
      const [{ statusCode }] = (await once(asked, 'connect')) as [{ statusCode: number }];
      expect([statusCode, passage.trouble()]).toEqual([502, expect.stringContaining('is link-local')]);
    }
  });

  it('ends with the program that it was opened for', async () => {
    const server = createTcpServer((socket) => void socket.on('error', () => undefined).resume());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const proxy = watchedProxy(network(ANYTHING));
    const source = `http://127.0.0.1:${(server.address() as AddressInfo).port}/plan.git`;
    const remote = { source, protocol: 'http', origin: null, credentialFile: null, proxy } as const;
    await expect(askRemote(git, remote, 500)).rejects.toThrow(/did not answer within/);
    const connections = (): Promise<number> =>
      new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(connections, PATIENCE).toBe(0);
  });

  it.skipIf(process.platform !== 'linux')('has its credentials in no argument (Linux)', async () => {
    const server = await serverOfRepository();
    const proxy = watchedProxy(network(ANYTHING));
    const seen: string[] = [];
    server.intercept = async () => {
      const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
      const lines = ids.map((id) => readFile(`/proc/${id}/cmdline`, 'latin1').catch(() => ''));
      seen.push(...(await Promise.all(lines)));
      return false;
    };
    const source = `${server.origin}/plan.git`;
    await askRemote(git, { source, protocol: 'http', origin: null, credentialFile: null, proxy });
    const password = proxy.urls[0]?.password ?? '';
    expect(password).toMatch(/^[0-9a-f]{48}$/);
    expect(seen.some((line) => line.includes('git-remote-http') || line.includes('remote-http'))).toBe(true);
    expect(seen.filter((line) => line.includes(password))).toEqual([]);
  });
});

/** A proxy as the operator of the service may have one, and the hosts that it was asked for. */
async function operatorsProxy(status = 200): Promise<{ readonly port: number; readonly asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((_, response) => void response.writeHead(400).end());
  server.on('connect', ({ url, headers }, client) => {
    asked.push(`${url} ${headers['proxy-authorization'] ?? ''}`.trim());
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\n\r\n`);
      return;
    }
    const port = Number(url?.split(':').at(-1));
    const upstream = connect(port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
    upstream.on('error', () => client.destroy()).pipe(client);
    client.on('error', () => upstream.destroy()).pipe(upstream);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, asked };
}

describe('the proxy of the operator', () => {
  const bound: IsRefused = (address) => LOOPBACK_BUT_FIRST(address) || isLinkLocal(address);

  it('is gone through, also to names that this machine does not know', async () => {
    const server = await serverOfRepository();
    const theirs = await operatorsProxy();
    const variables = { http_proxy: `http://us%65r:secret@127.0.0.1:${theirs.port}`, NO_PROXY: 'b.test' };
    const { create } = await start(network(bound, { variables }));
    expect((await create(`http://unknown.test:${server.port}/plan.git`))[0]).toBe(201);
    await expect.poll(told, PATIENCE).toEqual([expect.stringContaining('cloned')]);
    expect(theirs.asked.length).toBe(server.requests.length);
    const authorization = `Basic ${Buffer.from('user:secret').toString('base64')}`;
    expect(new Set(theirs.asked)).toEqual(new Set([`unknown.test:${server.port} ${authorization}`]));
  });

  it('is not asked for what is refused, and is let out for what it is not for', async () => {
    const server = await serverOfRepository();
    const theirs = await operatorsProxy();
    const variables = { ALL_PROXY: `127.0.0.1:${theirs.port}`, no_proxy: 'x.test, .test' };
    const { create } = await start(network(bound, { variables }));
    for (const host of ['169.254.169.254', '[::1]', '127.0.0.2'])
      expect(await create(`http://${host}:${server.port}/plan.git`)).toEqual(UNCONNECTED);
    expect(theirs.asked).toEqual([]);
    expect(told().join()).toMatch(/169\.254\.169\.254 is link-local/);
    expect((await create(`http://git.test:${server.port}/plan.git`))[0]).toBe(201);
    await expect.poll(() => told().at(-1), PATIENCE).toContain('cloned');
    expect(theirs.asked).toEqual([]);
  });

  it('is told to the operator alone where it refuses, or cannot be used', async () => {
    const theirs = await operatorsProxy(403);
    const variables: Record<string, string> = { https_proxy: `http://127.0.0.1:${theirs.port}` };
    const { create } = await start(network(bound, { variables }));
    expect(await create('https://git.test/plan.git')).toEqual(UNCONNECTED);
    variables['https_proxy'] = `http://u:secret@127.0.0.1:${await closedPort()}`;
    expect(await create('https://git.test/plan.git')).toEqual(UNCONNECTED);
    variables['https_proxy'] = 'socks5://127.0.0.1:1';
    expect(await create('https://git.test/plan.git')).toEqual(UNCONNECTED);
    expect(told()).toEqual([
      expect.stringMatching(/the proxy 127\.0\.0\.1:\d+ answers 403 for git\.test:443/),
      expect.stringMatching(/no connection through the proxy 127\.0\.0\.1:\d+ \(ECONNREFUSED\)/),
      expect.stringContaining('the proxy that the environment of the service names is not one of http'),
    ]);
    expect(told().join()).not.toContain('secret');
  });
});
