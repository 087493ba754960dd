import { randomBytes } from 'node:crypto';
import { mkdir, readdir, truncate, writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createDeflate, deflateSync } from 'node:zlib';

import { afterAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { describeFetch } from '../../../../src/server/start/notices.ts';
import { type FileChange, makeCommits } from '../../../../src/server/demo/commits.ts';
import { initialise } from '../../../../src/server/git/bare.ts';
import type { FetchEvent } from '../../../../src/server/external/fetches.ts';
import { createForwardProxy } from '../../../../src/server/git/forward-proxy.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { OversizeError } from '../../../../src/server/external/errors.ts';
import type { Remote } from '../../../../src/server/external/reach.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/registry.ts';
import { pull } from '../../../../src/server/external/remote.ts';
import { type GitHttpServer, startGitHttpServer } from '../../../support/git-http-server.ts';
import { createGitService } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** For machines that are busy with other tests. */
const PATIENCE = { timeout: 30_000 };
const KEY = 'a-key-of-the-tests';
const MAX_BYTES = 1_000_000;
const TOO_LARGE = 'the repository would take more than 1 MB on disk, which is the most that one may';
const git = new Git();
const proxy = createForwardProxy({ isRefused: () => false });
afterAll(proxy.close);

let root = '';
let events: FetchEvent[] = [];

const host = (): string => join(root, 'host');
const source = (): string => join(host(), 'plan.git');
const shelf = (): string => join(root, 'data', 'repositories');
const told = (): string[] => events.map(describeFetch);

async function commit(files: Readonly<Record<string, string | Buffer>>, isFirst = false): Promise<void> {
  const changes: FileChange[] = Object.entries(files).map(([path, content]) => ({
    kind: 'write',
    path,
    content,
  }));
  const author = { name: 'A', email: 'a@example.com' };
  const at = new Date('2026-01-02T03:04:05Z');
  const more = isFirst ? {} : { from: 'refs/heads/main^0' };
  await makeCommits(git, source(), [{ branch: 'main', author, at, message: 'm\n', changes, ...more }]);
}

interface Started {
  readonly registry: Registry;
  readonly ask: (path: string, body?: unknown) => Promise<Response>;
}

async function start(): Promise<Started> {
  const registry = await openRegistry(join(root, 'data'), {
    sources: 'any',
    maxRepositoryBytes: MAX_BYTES,
    onEvent: (event) => events.push(event),
  });
  const service = createGitService({ registry, apiKey: KEY });
  const { baseUrl } = await service.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => service.close().then(() => registry.close()));
  const ask = (path: string, body?: unknown): Promise<Response> =>
    fetch(baseUrl + path, {
      headers: { 'x-api-key': KEY },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
  return { registry, ask };
}

async function connect(url: string): Promise<Started & { readonly id: string }> {
  const started = await start();
  const { id } = (await (await started.ask('/repos', { url })).json()) as { id: string };
  await expect.poll(told, PATIENCE).toHaveLength(1);
  return { ...started, id };
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

/** How often a server was asked for something: for its references once, and more often where objects are fetched. */
const posts = ({ requests }: GitHttpServer): number =>
  requests.filter(({ line }) => line.startsWith('POST')).length;

const remoteAt = (from: string): Remote => ({
  source: from,
  protocol: from.startsWith('http') ? 'http' : 'file',
  origin: null,
  credentialFile: null,
  proxy,
});

async function ownRepository(): Promise<string> {
  const own = join(root, 'own', 'own.git');
  await mkdir(join(root, 'own'));
  await initialise(git, own);
  return own;
}

beforeEach(async () => {
  root = await temporaryFolder();
  events = [];
  await mkdir(host());
  await initialise(git, source());
  await commit({ 'plan.xlsx': 'one' }, true);
});

describe('a repository that is larger than one may be', () => {
  it.each([
    ['in one large object', () => ({ 'large.bin': randomBytes(3_000_000) })],
    [
      'in many objects',
      () =>
        Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`${index}.bin`, randomBytes(50_000)])),
    ],
    [
      'in a pack of many objects',
      () =>
        Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`${index}.bin`, randomBytes(9000)])),
    ],
  ])('is not cloned, and leaves nothing behind: %s', async (_, files) => {
    await commit(files());
    for (const url of [source(), `${(await startGitHttpServer(host())).origin}/plan.git`]) {
      root = join(root, 'next');
      events = [];
      const { ask, id } = await connect(url);
      expect(told()).toEqual([
        expect.stringMatching(
          new RegExp(`cannot be cloned, .* tried again .*: ${TOO_LARGE}\\. Connect a smaller repository`),
        ),
      ]);
      const answer = await ask(`/repos/${id}/contents`);
      expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining(TOO_LARGE)]);
      expect(await readdir(shelf())).toEqual([`${id}.git`]);
      const left = await filesBelow(join(shelf(), `${id}.git`, 'objects'));
      expect(left).toEqual([]);
    }
  });

  it('is not asked for again until it is another one', async () => {
    await commit({ 'large.bin': randomBytes(3_000_000) });
    const server = await startGitHttpServer(host());
    const { registry, id } = await connect(`${server.origin}/plan.git`);
    const refresh = async (): Promise<number> => {
      const before = posts(server);
      await expect(registry.fetches.fetch(id)).rejects.toThrow(TOO_LARGE);
      return posts(server) - before;
    };
    expect([await refresh(), await refresh(), await refresh()]).toEqual([1, 1, 1]);
    await commit({ 'plan.xlsx': 'two' });
    expect(await refresh()).toBeGreaterThan(2);
    expect(await refresh()).toBe(1);
    await git.run(source(), ['update-ref', 'refs/heads/main', 'refs/heads/main~2']);
    await registry.fetches.fetch(id);
    expect(told().at(-1)).toContain('cloned');
  });

  it('is served as it was where it becomes so, and goes on where it fits again', async () => {
    const { registry, ask, id } = await connect(source());
    expect(told()).toEqual([expect.stringContaining('cloned')]);
    await commit({ 'a.bin': randomBytes(600_000) });
    await registry.fetches.fetch(id);
    const before = await filesBelow(registry.gitDirectory(id));
    await commit({ 'plan.xlsx': 'two', 'b.bin': randomBytes(600_000) });
    await expect(registry.fetches.fetch(id)).rejects.toBeInstanceOf(OversizeError);
    await expect(registry.fetches.fetch(id)).rejects.toMatchObject({
      code: 'service.failed',
      trouble: 'too-large',
      message: TOO_LARGE,
      hint: expect.stringContaining('smaller repository') as unknown,
    });
    expect(await filesBelow(registry.gitDirectory(id))).toEqual(before);
    expect(await readdir(shelf())).toEqual([`${id}.git`]);
    expect(await (await ask(`/repos/${id}/contents/plan.xlsx`)).text()).toBe('one');
    await git.run(source(), ['update-ref', 'refs/heads/main', 'refs/heads/main~1']);
    await commit({ 'plan.xlsx': 'three' });
    await registry.fetches.fetch(id);
    expect(await (await ask(`/repos/${id}/contents/plan.xlsx`)).text()).toBe('three');
  });

  it('is not added to where it is so already', async () => {
    const own = await ownRepository();
    await commit({ 'a.bin': randomBytes(600_000) });
    await pull(git, remoteAt(source()), own);
    await commit({ 'plan.xlsx': 'two' });
    await expect(pull(git, remoteAt(source()), own, { maxBytes: 500_000 })).rejects.toThrow(OversizeError);
    await pull(git, remoteAt(source()), own, { maxBytes: null });
  });
});

/** A length as packs have it (gitformat-pack(5)): of an object, with its type. */
function packHeader(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size % 16)];
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80;
    bytes.push(rest % 128);
  }
  return Buffer.from(bytes);
}

function packStart(count: number): Buffer {
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1');
  header.writeUInt32BE(count, 8);
  return header;
}

/** Answers a fetch with a pack; gives false where something else is asked. */
async function sendPack(
  pack: AsyncIterable<Buffer>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  request.resume();
  response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' });
  const line = (text: Buffer): Buffer =>
    Buffer.concat([Buffer.from((text.length + 4).toString(16).padStart(4, '0')), text]);
  response.write(line(Buffer.from('packfile\n')));
  for await (const chunk of pack) {
    for (let at = 0; at < chunk.length; at += 60_000) {
      const part = Buffer.concat([Buffer.from([1]), chunk.subarray(at, at + 60_000)]);
      if (!response.write(line(part)) && !response.destroyed)
        await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
    }
    if (response.destroyed) return;
  }
  response.end('0000');
}

/** Has a server answer its third POST, which asks for objects, with a pack. */
function answerFetch(server: GitHttpServer, pack: () => AsyncIterable<Buffer>): void {
  let posts = 0;
  server.intercept = async (request, response) => {
    if (request.method === 'POST') posts += 1;
    if (posts < 3) return false;
    await sendPack(pack(), request, response);
    return true;
  };
}

describe('a server that sends without end', () => {
  it('is cut off', async () => {
    const server = await startGitHttpServer(host());
    let sentBytes = 0;
    async function* endless(): AsyncIterable<Buffer> {
      yield Buffer.concat([packStart(1), packHeader(3, 2 ** 40)]);
      const deflate = createDeflate({ level: 0 });
      const noise = randomBytes(60_000);
      const feed = (): void => {
        while (!deflate.destroyed && deflate.write(noise));
      };
      deflate.on('drain', feed);
      feed();
      for await (const chunk of deflate) {
        sentBytes += (chunk as Buffer).length;
        if (sentBytes > 2 ** 30) return;
        yield chunk as Buffer;
      }
    }
    answerFetch(server, endless);
    const own = await ownRepository();
    const remote = remoteAt(`${server.origin}/plan.git`);
    await expect(pull(git, remote, own, { maxBytes: 5_000_000 })).rejects.toThrow(OversizeError);
    // What is under way in buffers between here and git comes on top of that.
    expect(sentBytes).toBeLessThan(2 ** 28);
    expect(await readdir(join(root, 'own'))).toEqual(['own.git']);
  });
});

/** A delta that makes of an object of some size so many copies of its beginning (gitformat-pack(5), "Deltified representation"). */
function copies(baseSize: number, copySize: number, count: number): { delta: Buffer; size: number } {
  const varint = (value: number): number[] => {
    const bytes: number[] = [];
    let rest = value;
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
    return [...bytes, rest];
  };
  const size = copySize * count;
  // From 0 on, with three bytes for the length.
  const copy = [0xf0, copySize % 256, Math.floor(copySize / 256) % 256, Math.floor(copySize / 65_536)];
  const head = Buffer.from([...varint(baseSize), ...varint(size)]);
  return {
    delta: Buffer.concat([head, ...Array.from({ length: count }, () => Buffer.from(copy))]),
    size,
  };
}

/** The distance back to the base of a delta (gitformat-pack(5), "offset encoding"). */
function offsetHeader(distance: number): Buffer {
  const bytes = [distance % 128];
  for (let rest = Math.floor(distance / 128); rest > 0; rest = Math.floor(rest / 128)) {
    rest -= 1;
    bytes.unshift((rest % 128) | 0x80);
  }
  return Buffer.from(bytes);
}

describe('a few bytes that stand for very many', () => {
  it.skipIf(process.platform !== 'linux')('are refused (where memory is bounded: Linux)', async () => {
    const server = await startGitHttpServer(host());
    const base = Buffer.alloc(60_000);
    const first = copies(base.length, base.length, 200);
    const second = copies(first.size, first.size, 600);
    const third = copies(second.size, 0xff_ff_ff, 1);
    expect(second.size).toBeGreaterThan(6 * 1024 ** 3);
    const entries = [Buffer.concat([packHeader(3, base.length), deflateSync(base)])];
    for (const { delta } of [first, second, third]) {
      const distance = entries.at(-1)?.length ?? 0;
      entries.push(Buffer.concat([packHeader(6, delta.length), offsetHeader(distance), deflateSync(delta)]));
    }
    const body = Buffer.concat([packStart(entries.length), ...entries]);
    async function* pack(): AsyncIterable<Buffer> {
      yield body;
      yield Buffer.from(await crypto.subtle.digest('SHA-1', body));
    }
    expect(body.length).toBeLessThan(10_000);
    answerFetch(server, pack);
    const own = await ownRepository();
    await expect(pull(git, remoteAt(`${server.origin}/plan.git`), own)).rejects.toMatchObject({
      trouble: 'too-large',
      message: 'the repository cannot be read: that takes more memory than git is given for it',
    });
    expect(await filesBelow(join(own, 'objects'))).toEqual([]);
  });
});

describe('a large object', () => {
  it('is cloned within the bounds, and fetched beside', async () => {
    const sparse = join(root, 'large');
    await writeFile(sparse, '');
    await truncate(sparse, 540 * 1024 ** 2);
    const args = ['-c', 'core.compression=0', 'hash-object', '-w', '--stdin-paths'];
    const object = (await git.run(source(), args, { input: `${sparse}\n` })).toString().trim();
    await git.run(source(), ['tag', 'large', object]);
    // A few objects are not kept as the pack that they come in.
    await commit(Object.fromEntries(Array.from({ length: 120 }, (_, index) => [`${index}`, `${index}`])));
    const own = await ownRepository();
    const maxBytes = 600 * 1024 ** 2;
    await pull(git, remoteAt(source()), own, { maxBytes });
    await commit({ 'plan.xlsx': 'two' });
    await pull(git, remoteAt(source()), own, { maxBytes });
    await expect(pull(git, remoteAt(source()), own, { maxBytes })).resolves.toMatchObject({
      isChanged: false,
    });
    expect((await git.run(own, ['cat-file', '-s', object])).toString().trim()).toBe(String(540 * 1024 ** 2));
  }, 300_000);
});
