import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';

import { type FileChange, makeCommits } from '../../../../src/server/demo/commits.ts';
import { initialise, keepExact, LASTING_SETTINGS } from '../../../../src/server/git/bare.ts';
import type { FetchEvent } from '../../../../src/server/external/fetches.ts';
import { createForwardProxy } from '../../../../src/server/git/forward-proxy.ts';
import { Git } from '../../../../src/server/git/git.ts';
import type { Remote } from '../../../../src/server/external/reach.ts';
import { readBranches } from '../../../../src/server/git/refs.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/registry.ts';
import { askRemote, pull } from '../../../../src/server/external/remote.ts';
import { startGitHttpServer } from '../../../support/git-http-server.ts';
import { createGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** For machines that are busy with other tests. */
const PATIENCE = { timeout: 30_000 };
const KEY = 'a-key-of-the-tests';
const git = new Git();

let root = '';
let events: FetchEvent[] = [];

interface Started {
  readonly registry: Registry;
  readonly ask: (path: string, body?: unknown) => Promise<Response>;
  readonly close: () => Promise<void>;
}

async function start(): Promise<Started> {
  const registry = await openRegistry(data(), { sources: 'any', onEvent: (event) => events.push(event) });
  const service = createGitService({ registry, apiKey: KEY });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => (closed ??= service.close().then(() => registry.close()));
  onTestFinished(close);
  const ask = (path: string, body?: unknown): Promise<Response> =>
    fetch(baseUrl + path, {
      headers: { 'x-api-key': KEY },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
  return { registry, ask, close };
}

/** With what ends a path in a list of paths, and what quotes it. */
const data = (): string => join(root, String.raw`a:b "c" \d`);
const shelf = (): string => join(data(), 'repositories');
const kinds = (): string[] => events.map(({ kind }) => kind);

async function commit(path: string, branch: string, content: string | Buffer, from?: string): Promise<void> {
  const changes: FileChange[] = [{ kind: 'write', path: 'plan.xlsx', content }];
  const author = { name: 'A', email: 'a@example.com' };
  const at = new Date('2026-01-02T03:04:05Z');
  const more = from === undefined ? {} : { from: `${from}^0` };
  await makeCommits(git, path, [{ branch, author, at, message: 'm\n', changes, ...more }]);
}

/** Makes the repository that is to be connected. */
async function external(name = 'plan.git', branch = 'main'): Promise<string> {
  const path = join(root, 'host', name);
  await mkdir(join(root, 'host'), { recursive: true });
  await initialise(git, path);
  await commit(path, branch, 'one');
  return path;
}

/** Connects a repository and waits until it is cloned. */
async function connected(source: string): Promise<Started & { readonly id: string; readonly own: string }> {
  const started = await start();
  const { id } = (await (await started.ask('/repos', { url: source })).json()) as { id: string };
  await expect.poll(kinds, PATIENCE).toContain('cloned');
  events.length = 0;
  return { ...started, id, own: started.registry.gitDirectory(id) };
}

async function heads(path: string): Promise<Record<string, string>> {
  return Object.fromEntries((await readBranches(git, path)).heads);
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

const proxy = createForwardProxy({ isRefused: () => false });
afterAll(proxy.close);

const remoteAt = (source: string): Remote => ({
  proxy,
  source,
  protocol: source.startsWith('http') ? 'http' : 'file',
  origin: null,
  credentialFile: null,
});

beforeEach(async () => {
  root = await temporaryFolder();
  events = [];
});

/** A server that takes connections and says nothing. */
async function silentServer(): Promise<string> {
  const server = createServer((socket) => void socket.on('error', () => undefined));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/plan.git`;
}

/** Sends half of what a fetch would be sent, and breaks off. */
async function breakOff(pack: Buffer, request: IncomingMessage, response: ServerResponse): Promise<void> {
  for await (const _ of request);
  response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' });
  const line = (text: Buffer): Buffer =>
    Buffer.concat([Buffer.from((text.length + 4).toString(16).padStart(4, '0')), text]);
  response.write(line(Buffer.from('packfile\n')));
  for (let at = 0; at < pack.length / 2; at += 60_000) {
    response.write(line(Buffer.concat([Buffer.from([1]), pack.subarray(at, at + 60_000)])));
  }
  setImmediate(() => response.destroy());
}

describe('a fetch', () => {
  it('that breaks off leaves nothing of what it was sent', async () => {
    const path = await external();
    const server = await startGitHttpServer(join(root, 'host'));
    const remote = remoteAt(`${server.origin}/plan.git`);
    await commit(path, 'main', randomBytes(3_000_000), 'refs/heads/main');
    const pack = await git.run(path, ['pack-objects', '--stdout', '--all', '--quiet'], { input: '' });
    await mkdir(shelf(), { recursive: true });
    const own = join(shelf(), 'own.git');
    await initialise(git, own);
    const before = await filesBelow(own);
    let posts = 0;
    server.intercept = async (request, response) => {
      if (request.method === 'POST') posts += 1;
      // What comes before asks for references, twice.
      if (posts < 3) return false;
      await breakOff(pack, request, response);
      return true;
    };
    for (let count = 0; count < 3; count += 1) {
      posts = 0;
      await expect(pull(git, remote, own)).rejects.toThrow(/cannot be read/);
      expect(posts).toBe(3);
    }
    expect(await filesBelow(own)).toEqual(before);
    expect(await readdir(shelf())).toEqual(['own.git']);
    server.intercept = () => false;
    await pull(git, remote, own);
    expect(await heads(own)).toEqual(await heads(path));
    await git.run(own, ['fsck', '--full', '--strict']);
    expect(await readdir(shelf())).toEqual(['own.git']);
  });

  it('is on the disk before it is told of', async () => {
    const path = await external();
    const watching = new Git();
    const run = vi.spyOn(watching, 'run');
    const own = join(root, 'own.git');
    await initialise(watching, own);
    await pull(watching, remoteAt(path), own);
    const commands = run.mock.calls.map(([, args]) => args);
    const writing = commands.filter((args) => args.includes('fetch') || args.includes('update-ref'));
    expect(writing).toHaveLength(2);
    for (const args of writing) expect(args.slice(0, LASTING_SETTINGS.length)).toEqual(LASTING_SETTINGS);
  });
});

describe('what is asked of a repository elsewhere', () => {
  it('has its time from when it is asked, however many are asked before', async () => {
    const path = await external();
    const { origin } = await startGitHttpServer(join(root, 'host'));
    const silent = await silentServer();
    const asking = new Git();
    onTestFinished(() => asking.stop());
    const hanging = Array.from({ length: 17 }, () =>
      askRemote(asking, remoteAt(silent), 3000).catch((error: unknown) => error),
    );
    const { ids } = await askRemote(asking, remoteAt(`${origin}/plan.git`), 3000);
    expect(ids.size).toBe(1);
    for (const error of await Promise.all(hanging))
      expect(String(error)).toMatch(/did not answer within 3 seconds/);
    expect(path).toContain('plan.git');
  });

  it('is not asked where too many wait already, and that is said', async () => {
    await external();
    const { registry, ask } = await start();
    const silent = await silentServer();
    const asked = Array.from({ length: 25 }, (_, index) =>
      ask('/repos', { url: silent.replace('plan', `plan${index}`) }),
    );
    const first = await Promise.race(asked);
    expect(first.status).toBe(503);
    expect(await first.text()).toMatch(/"busy".*too many repositories are being connected/);
    expect(first.headers.get('retry-after')).toBeNull();
    await registry.close();
    await Promise.all(asked);
  });

  it('may not say more than fits into memory', async () => {
    await external();
    const server = await startGitHttpServer(join(root, 'host'));
    const line = (text: string): string => (text.length + 5).toString(16).padStart(4, '0') + text + '\n';
    let sentBytes = 0;
    server.intercept = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' });
      response.write(`${line('# service=git-upload-pack')}0000`);
      const id = '1'.repeat(40);
      response.write(line(`${id} refs/heads/first\0agent=x`));
      let count = 0;
      const more = (): void => {
        const lines = Array.from({ length: 1000 }, () =>
          line(`${id} refs/heads/${'x'.repeat(200)}${(count += 1)}`),
        );
        const text = lines.join('');
        sentBytes += text.length;
        if (sentBytes > 2 * 1024 ** 3 || response.destroyed) response.end();
        else if (response.write(text)) setImmediate(more);
        else response.once('drain', more);
      };
      more();
      return true;
    };
    await expect(askRemote(git, remoteAt(`${server.origin}/plan.git`))).rejects.toThrow(
      /cannot be read|fit into/,
    );
    expect(sentBytes).toBeLessThan(1024 ** 3);
  });

  it('may be larger than the memory that its answer gets, where it is on this machine', async () => {
    const path = await external();
    const sparse = join(root, 'large');
    await writeFile(sparse, '');
    await truncate(sparse, 540 * 1024 ** 2);
    const object = await git.run(path, ['-c', 'core.compression=0', 'hash-object', '-w', '--stdin-paths'], {
      input: `${sparse}\n`,
    });
    await git.run(path, ['tag', 'large', object.toString('utf8').trim()]);
    expect((await askRemote(git, remoteAt(path))).ids.has('refs/tags/large')).toBe(true);
  }, 60_000);

  it('may not say more of its references than is of use', async () => {
    await external();
    await expect(git.run(null, ['version', '--build-options'], { maxOutputBytes: 10 })).rejects.toMatchObject(
      { bound: 'output' },
    );
  });
});

describe('the references', () => {
  it('give a default branch where the other repository has none', async () => {
    const path = await external('plan.git', 'trunk');
    await git.run(path, ['update-ref', '--no-deref', 'HEAD', 'refs/heads/trunk']);
    const { ask, id, own, registry } = await connected(path);
    expect((await readBranches(git, own)).defaultBranch).toBe('trunk');
    expect((await ask(`/repos/${id}/contents/plan.xlsx`)).status).toBe(200);
    await registry.fetches.fetch(id);
    expect(events).toEqual([]);
  });

  it('are all there but those that no disk can hold, and these are named once', async () => {
    const path = await external();
    const { registry, id, own } = await connected(path);
    const [commitId] = Object.values(await heads(path));
    const long = `refs/heads/${'x'.repeat(251)}`;
    // Git's own files cannot hold it, but its packed ones can.
    await writeFile(
      join(path, 'packed-refs'),
      `# pack-refs with: peeled fully-peeled sorted \n${commitId} ${long}\n`,
    );
    await commit(path, 'topic', 'topic', 'refs/heads/main');
    await registry.fetches.fetch(id);
    await registry.fetches.fetch(id);
    expect(Object.keys(await heads(own)).sort()).toEqual(['main', 'topic']);
    expect(events.filter(({ kind }) => kind === 'left-out')).toEqual([
      expect.objectContaining({ names: [long] }),
    ]);
    await commit(path, 'main', 'two', 'refs/heads/main');
    await registry.fetches.fetch(id);
    expect(kinds()).toEqual(['fetched', 'left-out', 'fetched']);
  });

  it('are all there but those that this disk refuses', async () => {
    const path = await external();
    const { registry, id, own } = await connected(path);
    await commit(path, 'refused', 'one', 'refs/heads/main');
    await commit(path, 'topic', 'topic', 'refs/heads/main');
    await commit(path, 'topic2', 'topic2', 'refs/heads/main');
    // Something in the way that git does not know of.
    await mkdir(join(own, 'refs', 'heads', 'refused'));
    await writeFile(join(own, 'refs', 'heads', 'refused', 'stray.lock'), '');
    await registry.fetches.fetch(id);
    expect(Object.keys(await heads(own)).sort()).toEqual(['main', 'topic', 'topic2']);
    await registry.fetches.fetch(id);
    expect(kinds()).toEqual(['fetched', 'left-out']);
    // Other commits are tried again.
    await rm(join(own, 'refs', 'heads', 'refused'), { recursive: true });
    await commit(path, 'refused', 'two', 'refs/heads/refused');
    await registry.fetches.fetch(id);
    expect(await heads(own)).toEqual(await heads(path));
  });
});

describe('a repository whose objects or folder are lost', () => {
  it.each([
    [
      'objects',
      (own: string) => rm(join(own, 'objects'), { recursive: true }).then(() => mkdir(join(own, 'objects'))),
    ],
    ['everything in it', (own: string) => rm(own, { recursive: true }).then(() => mkdir(own))],
    ['folder', (own: string) => rm(own, { recursive: true })],
    ['HEAD', (own: string) => writeFile(join(own, 'HEAD'), '')],
    ['branch', (own: string) => writeFile(join(own, 'refs', 'heads', 'main'), '')],
  ])('is cloned again: %s', async (_, lose) => {
    const path = await external();
    const { registry, id, own, ask } = await connected(path);
    await lose(own);
    await registry.fetches.fetch(id).catch(() => registry.fetches.fetch(id));
    expect(await heads(own)).toEqual(await heads(path));
    expect((await ask(`/repos/${id}/contents/plan.xlsx`)).status).toBe(200);
    expect(registry.list()[0]).toMatchObject({ cloned: true });
    expect(registry.list()[0]).not.toHaveProperty('damaged');
    expect(await readdir(shelf())).toEqual([`${id}.git`]);
    expect(await readFile(join(own, 'info', 'attributes'), 'utf8')).toContain('-export-ignore');
  });

  it('is cloned again by the next service, and until then nobody takes it for empty', async () => {
    const path = await external();
    const first = await connected(path);
    await first.close();
    await rm(first.own, { recursive: true });
    const away = `${path}.away`;
    await git.run(null, ['clone', '--quiet', '--bare', path, away], {
      environment: { GIT_ALLOW_PROTOCOL: 'file' },
    });
    await rm(path, { recursive: true });
    const second = await start();
    expect(second.registry.list()[0]).toMatchObject({ cloned: false, damaged: true });
    await expect.poll(kinds, PATIENCE).toEqual(['failing']);
    const answer = await second.ask(`/repos/${first.id}/contents`);
    expect(answer.status).toBe(503);
    expect(await answer.text()).toMatch(
      /"processing".*cloned again.*that fails: the repository cannot be read: .*next attempt is at 2/,
    );
    await git.run(null, ['clone', '--quiet', '--bare', away, path], {
      environment: { GIT_ALLOW_PROTOCOL: 'file' },
    });
    second.registry.fetches.soon(first.id);
    await expect.poll(kinds, PATIENCE).toEqual(['failing', 'cloned', 'recovered']);
    expect((await second.ask(`/repos/${first.id}/contents/plan.xlsx`)).status).toBe(200);
  });

  it('is found out by who reads it, where references and commits are there', async () => {
    const path = await external();
    const { own, ask, id, registry } = await connected(path);
    const blob = (await git.run(own, ['rev-parse', 'refs/heads/main:plan.xlsx'])).toString().trim();
    await git.run(own, ['unpack-objects', '-q'], { input: '' }).catch(() => undefined);
    const file = join(own, 'objects', blob.slice(0, 2), blob.slice(2));
    await chmod(file, 0o644);
    await writeFile(file, 'damaged');
    await ask(`/repos/${id}/contents/plan.xlsx`)
      .then((answer) => answer.arrayBuffer())
      .catch(() => undefined);
    await expect.poll(kinds, PATIENCE).toEqual(['damaged', 'cloned']);
    await registry.fetches.fetch(id);
    expect(Buffer.from(await (await ask(`/repos/${id}/contents/plan.xlsx`)).arrayBuffer()).toString()).toBe(
      'one',
    );
  });

  it('is not made by the file of attributes', async () => {
    await expect(keepExact(join(root, 'none.git'))).rejects.toMatchObject({ code: 'ENOENT' });
    expect(await readdir(root)).toEqual([]);
  });
});
