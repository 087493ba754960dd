import { readFile, rename, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, vi } from 'vitest';

import { Git } from '../../../../src/server/git/git.ts';
import { createWorkbookListing } from '../../../../src/server/git/listing.ts';
import type { RegistryOptions } from '../../../../src/server/git/repositories.ts';
import {
  commitPlan,
  type ConnectingService,
  headsOf,
  makeExternal,
  startConnecting,
} from '../../../support/connecting.ts';
import { startGitHttpServer } from '../../../support/git-http-server.ts';
import { outcomesIn } from '../../../support/git-service.ts';
import { listen, makeCertificate } from '../../../support/listen.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const git = new Git();

let root = '';
let told: string[] = [];

const start = (options: RegistryOptions = {}): Promise<ConnectingService> =>
  startConnecting(join(root, 'data'), { tell: (line) => told.push(line), ...options });

const kinds = (): string[] => outcomesIn(told);

const external = (): Promise<string> => makeExternal(root);

/** Connects a repository and waits until it is cloned. */
async function connected(url: string) {
  const started = await start();
  const { id } = (await (await started.ask('/repos', { url })).json()) as { id: string };
  await expect.poll(kinds).toContain('cloned');
  told.length = 0;
  return { ...started, id, own: started.registry.gitDirectory(id) };
}

/** The answer to a request to connect an address. */
async function answerTo({ ask }: ConnectingService, url: string): Promise<[number, string]> {
  const response = await ask('/repos', { url });
  return [response.status, await response.text()];
}

beforeEach(async () => {
  root = await temporaryFolder();
  told = [];
});

it('an external repository is not served if it is too large, and keeps its last state if it becomes so', async () => {
  const path = await external();
  const started = await start({ maxRepositoryBytes: 100_000 });
  const { id } = (await (await started.ask('/repos', { url: path })).json()) as { id: string };
  await expect.poll(kinds).toEqual(['cloned']);
  await commitPlan(path, 'large', Buffer.from(Array.from({ length: 300_000 }, () => Math.random() * 256)));
  await expect(started.registry.fetches.fetch(id)).rejects.toMatchObject({ trouble: 'too_large' });
  await commitPlan(path, 'small', 'two');
  await expect(started.registry.fetches.fetch(id)).rejects.toMatchObject({ trouble: 'too_large' });
  expect(Object.keys(await headsOf(started.registry.gitDirectory(id)))).not.toContain('small');
  expect((await started.ask(`/repos/${id}/contents/plan.xlsx`)).status).toBe(200);

  await rename(join(root, 'host'), join(root, 'other'));
  const other = join(root, 'other', 'plan.git');
  const { id: second } = (await (await started.ask('/repos', { url: other })).json()) as { id: string };
  await expect.poll(kinds).toEqual(['cloned', 'failing', 'failing']);
  const answer = await started.ask(`/repos/${second}/contents`);
  expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining('takes more than')]);
});

it('a clone that is lost is made by the next service, and is not left out of the list until then', async () => {
  const path = await external();
  const first = await connected(path);
  await first.close();
  await rm(first.own, { recursive: true });
  await rename(path, `${path}.away`);
  const second = await start();
  second.registry.fetches.startComparing(1_000_000);
  await expect.poll(kinds).toEqual(['failing']);
  await expect(createWorkbookListing(git, second.registry).rows()).rejects.toThrow(/list is not given/);
  expect((await second.ask(`/repos/${first.id}/contents`)).status).toBe(500);
  await rename(`${path}.away`, path);
  second.registry.fetches.soon(first.id);
  await expect.poll(kinds).toEqual(['failing', 'fetched', 'recovered']);
  expect((await second.ask(`/repos/${first.id}/contents/plan.xlsx`)).status).toBe(200);
  expect(await readFile(join(first.own, 'info', 'attributes'), 'utf8')).toContain('-export-ignore');
});

it('a repository that shows no branches any more keeps its last state, as a server in trouble may answer so', async () => {
  const path = await external();
  const { id, registry, ask } = await connected(path);
  for (const name of Object.keys(await headsOf(path)))
    await git.run(path, ['update-ref', '-d', `refs/heads/${name}`]);
  await expect(registry.fetches.fetch(id)).rejects.toMatchObject({ trouble: 'unreachable' });
  expect((await ask(`/repos/${id}/contents/plan.xlsx`)).status).toBe(200);
});

it('a repository that becomes a shallow clone is fetched as it is', async () => {
  const path = await external();
  const { id, registry, own } = await connected(path);
  await commitPlan(path, 'later', 'two');
  await commitPlan(path, 'later', 'three', 'later');
  await rename(path, `${path}.whole`);
  await git.run(null, ['clone', '--bare', '--depth=1', '--branch=later', `file://${path}.whole`, path], {
    environment: { GIT_ALLOW_PROTOCOL: 'file' },
  });
  await registry.fetches.fetch(id);
  expect(await headsOf(own)).toEqual(await headsOf(path));
  expect(await headsOf(own)).toHaveProperty('later');
});

describe('an address', () => {
  it.each(['169.254.169.254', '0xa9fea9fe', '[fe80::1]', '[::ffff:169.254.169.254]'])(
    'that is link-local is refused: %s',
    async (host) => {
      const [status, text] = await answerTo(await start(), `http://${host}/plan.git`);
      expect([status, text]).toEqual([422, expect.stringContaining('is link-local')]);
    },
  );

  it('that has no name is refused, and one by name is cloned', async () => {
    await external();
    const { port } = await startGitHttpServer(join(root, 'host'));
    const started = await start();
    const [status, text] = await answerTo(started, 'http://no-such-host.invalid/plan.git');
    expect([status, text]).toEqual([422, expect.stringContaining('no address of no-such-host.invalid')]);
    expect((await answerTo(started, `http://localhost:${port}/plan.git`))[0]).toBe(201);
    await expect.poll(kinds).toEqual(['cloned']);
  });

  it('is reached by TLS, with the authority that the environment names', async () => {
    await external();
    const tls = await makeCertificate('localhost');
    const { port } = await startGitHttpServer(join(root, 'host'), undefined, tls);
    const started = await start();
    const [status, text] = await answerTo(started, `https://localhost:${port}/plan.git`);
    expect([status, text]).toEqual([422, expect.stringMatching(/SSL|certificate/)]);
    vi.stubEnv('GIT_SSL_CAINFO', tls.certFile);
    expect((await answerTo(started, `https://localhost:${port}/plan.git`))[0]).toBe(201);
    await expect.poll(kinds).toEqual(['cloned']);
  });

  it('is reached through the proxy of the operator, which looks up its name', async () => {
    await external();
    const { port } = await startGitHttpServer(join(root, 'host'));
    const asked: string[] = [];
    const proxy = createServer((request, response) => {
      asked.push(`${request.url} ${request.headers['proxy-authorization']}`);
      const { pathname, search } = new URL(request.url ?? '');
      const socket = connect(port, '127.0.0.1');
      socket.write(`${request.method} ${pathname}${search} HTTP/1.0\r\n`);
      socket.write(`content-type: ${request.headers['content-type'] ?? ''}\r\n`);
      socket.write(`content-length: ${request.headers['content-length'] ?? 0}\r\n\r\n`);
      request.pipe(socket, { end: false });
      socket.pipe(response.socket ?? socket);
    });
    vi.stubEnv('http_proxy', `http://user:secret@${await listen(proxy)}`);
    vi.stubEnv('no_proxy', 'excepted.invalid');
    const started = await start();
    expect((await answerTo(started, 'http://excepted.invalid/plan.git'))[0]).toBe(422);
    expect(asked).toEqual([]);
    expect((await answerTo(started, 'http://known-to-the-proxy.invalid/plan.git'))[0]).toBe(201);
    const authorization = `Basic ${Buffer.from('user:secret').toString('base64')}`;
    expect(asked[0]).toMatch(/^http:\/\/known-to-the-proxy\.invalid\/plan\.git\/info\/refs/);
    expect(asked[0]).toContain(authorization);
    proxy.close();
    vi.stubEnv('http_proxy', 'http://user:secret@127.0.0.1:1');
    const [status, text] = await answerTo(started, 'http://another.invalid/plan.git');
    expect([status, text]).toEqual([422, expect.not.stringContaining('secret')]);
  });
});
