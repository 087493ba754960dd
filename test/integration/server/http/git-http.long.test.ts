import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { type IncomingMessage, request as sendRequest } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

import { beforeEach, describe, expect, it } from 'vitest';

import {
  git,
  type GitEnded,
  GROUP_KEY,
  KEY,
  startUploadService,
  type UploadService,
} from '../../../support/upload-service.ts';

const BASIC = `Basic ${Buffer.from(`anyone:${KEY}`).toString('base64')}`;

let service: UploadService;
let work = '';
let gitDirectory = '';

async function start(maxUploadBytes?: number): Promise<void> {
  service = await startUploadService(maxUploadBytes);
  const { id } = await service.registry.create('Plans 2026');
  gitDirectory = service.registry.gitDirectory(id);
  work = join(service.folder, 'work');
  await ok('clone', '--quiet', service.address('Plans%202026.git'), work);
}

/** Runs git in the clone. */
async function run(...args: readonly string[]): Promise<GitEnded> {
  return git(work === '' || args[0] === 'clone' ? service.folder : work, ...args);
}

async function ok(...args: readonly string[]): Promise<string> {
  const { code, said } = await run(...args);
  expect([args, code, said]).toEqual([args, 0, said]);
  return said;
}

/** Begins a branch with one workbook, and pushes it. */
async function begin(branch = 'main'): Promise<void> {
  await ok('checkout', '--quiet', '-b', branch);
  await change('a.xlsx', 'one');
  await ok('push', '--quiet', 'origin', branch);
}

async function change(path: string, content: string | Buffer): Promise<void> {
  await writeFile(join(work, path), content);
  await ok('add', '--all');
  await ok('commit', '--quiet', '--message', `Change ${path}`);
}

function contents(path: string): Promise<Response> {
  return fetch(`${service.origin}api/repos/Plans%202026/contents${path}`, { headers: { 'x-api-key': KEY } });
}

beforeEach(async () => {
  work = '';
  await start();
  return () => expect(service.failures).toEqual([]);
});

describe('pushing', () => {
  it('shows in the API immediately, for any first branch', async () => {
    await begin('trunk');
    expect(await (await contents('/a.xlsx')).text()).toBe('one');
    await change('a.xlsx', 'two');
    await ok('push', 'origin', 'trunk');
    expect(await (await contents('/a.xlsx')).text()).toBe('two');
  });

  it('makes, forces and deletes branches, and makes tags', async () => {
    await begin();
    await ok('push', 'origin', 'main:feature/x');
    await ok('commit', '--quiet', '--amend', '--message', 'other');
    expect((await run('push', 'origin', 'main')).said).toContain('non-fast-forward');
    await ok('push', '--force', 'origin', 'main');
    await ok('tag', 'v1');
    await ok('push', 'origin', 'v1', ':feature/x');
    const said = await ok('ls-remote', 'origin');
    expect(said.split('\n').map((line) => line.split('\t')[1])).toEqual([
      'HEAD',
      'refs/heads/main',
      'refs/tags/v1',
      undefined,
    ]);
  });

  it('refuses refs other than branches and tags, and the deletion of the default branch, legibly', async () => {
    await begin();
    const hidden = await run('push', 'origin', 'main:refs/notes/x');
    expect([hidden.code, hidden.said]).toEqual([1, expect.stringContaining('deny updating a hidden ref')]);
    const deletion = await run('push', 'origin', ':main');
    expect(deletion.said).toContain('deletion of the current branch prohibited');
    const below = await run('push', 'origin', 'main:main/x');
    expect([below.code, below.said]).toEqual([1, expect.stringContaining('remote rejected')]);
  });

  it('refuses objects that harm fetching clients', async () => {
    await ok('checkout', '--quiet', '-b', 'main');
    await change('a.xlsx', 'one');
    const id = (await ok('rev-parse', 'HEAD:a.xlsx')).trim();
    const file = join(service.folder, 'tree');
    const entry = Buffer.concat([Buffer.from('100644 .git\0'), Buffer.from(id, 'hex')]);
    await writeFile(file, entry);
    const tree = (await ok('hash-object', '-w', '-t', 'tree', '--literally', file)).trim();
    const commitId = (await ok('commit-tree', '-m', 'bad', tree)).trim();
    const { code, said } = await run('push', 'origin', `${commitId}:refs/heads/main`);
    expect([code, said]).toEqual([1, expect.stringContaining('hasDotgit')]);
    expect(await readdir(join(gitDirectory, 'refs/heads'))).toEqual([]);
  });

  it('reports an object that is too large, and keeps nothing of it', async () => {
    await start(100_000);
    await ok('checkout', '--quiet', '-b', 'main');
    await change('big.xlsx', randomBytes(5_000_000));
    const { code, said } = await run('push', 'origin', 'main');
    expect([code, said]).toEqual([1, expect.stringContaining('pack exceeds maximum allowed size')]);
    expect(await readdir(join(gitDirectory, 'refs/heads'))).toEqual([]);
    const objects = await readdir(join(gitDirectory, 'objects'));
    expect(objects.toSorted()).toEqual(['info', 'pack']);
  });

  it('into a connected external repository is refused, while fetching from it works', async () => {
    await ok('checkout', '--quiet', '-b', 'main');
    await change('a.xlsx', 'one');
    const source = join(service.folder, 'source.git');
    await ok('clone', '--quiet', '--bare', work, source);
    await service.registry.connectSample('https://git.example.com/planning/forecast.git', source);
    for (const name of ['forecast.git', 'forecast', 'git.example.com/planning/forecast.git']) {
      const address = service.address(name);
      await expect
        .poll(() => run('ls-remote', address).then(({ said }) => said))
        .toContain('refs/heads/main');
      const { code, said } = await run('push', address, 'main:other');
      expect([code, said]).toEqual([
        128,
        expect.stringContaining('push to https://git.example.com/planning/forecast.git'),
      ]);
    }
  });
});

describe('fetching', () => {
  it.each(['0', '2'])('speaks version %s of the protocol', async (version) => {
    await begin();
    const copy = join(service.folder, `copy-${version}`);
    await ok('-c', `protocol.version=${version}`, 'clone', '--quiet', service.address('Plans%202026'), copy);
    expect(await readFile(join(copy, 'a.xlsx'), 'utf8')).toBe('one');
    await change('a.xlsx', 'two');
    await ok('push', 'origin', 'main');
    await git(copy, '-c', `protocol.version=${version}`, 'pull', '--quiet');
    expect(await readFile(join(copy, 'a.xlsx'), 'utf8')).toBe('two');
  });

  it('sends files on demand, if a client wants that', async () => {
    await begin();
    const copy = join(service.folder, 'copy');
    const partial = ['--quiet', '--filter=blob:none', '--no-checkout'];
    await ok('clone', ...partial, service.address('Plans%202026'), copy);
    const missing = await git(copy, 'rev-list', '--objects', '--missing=print', 'HEAD');
    expect(missing.said).toMatch(/^\?[0-9a-f]{40}$/m);
    expect((await git(copy, 'show', 'HEAD:a.xlsx')).said).toBe('one');
  });
});

describe('a git client', () => {
  it('needs a personal key, and learns which repositories do not exist', async () => {
    expect((await run('ls-remote', service.address('nope.git'))).said).toContain('no repository nope');
    const at = (key: string): string => `${service.origin.replace('//', `//x:${key}@`)}git/Plans%202026.git`;
    expect((await run('ls-remote', at('wrong'))).said).toContain('Authentication failed');
    expect((await run('ls-remote', at(GROUP_KEY))).said).toContain('use a personal API key');
    expect((await run('ls-remote', at('token-of-anna'))).said).toContain(
      'this is an API token; use a personal API key: give it as the password; the user name can be any',
    );
    expect((await run('ls-remote', `${service.origin}git/Plans%202026.git`)).said).toContain(
      'could not read Username',
    );
    const response = await fetch(`${service.origin}git/x/info/refs?service=git-upload-pack`);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toContain('Basic realm=');
  });

  it('may compress its requests', async () => {
    const headers = {
      authorization: BASIC,
      'content-type': 'application/x-git-receive-pack-request',
      'content-encoding': 'gzip',
    };
    const asked = { method: 'POST', headers, body: gzipSync('0000') };
    const path = 'git/Plans%202026.git/git-receive-pack';
    expect((await fetch(service.origin + path, asked)).status).toBe(200);
  });

  it('does not see a damaged repository as missing, and the log says what is wrong', async () => {
    await rename(join(gitDirectory, 'HEAD'), join(gitDirectory, 'HEAD.away'));
    const { said } = await run('ls-remote', 'origin');
    expect(said).toContain('returned error: 500');
    expect(service.failures.splice(0).map(String)).toEqual([
      expect.stringContaining('git does not answer a client: Not a git repository'),
    ]);
  });

  it('that leaves before git answers is not a failure of the service', async () => {
    for (let waitMs = 0; waitMs < 60; waitMs += 5) {
      const request = sendRequest(`${service.origin}git/Plans%202026/info/refs?service=git-upload-pack`, {
        headers: { authorization: BASIC },
        agent: false,
      }).end();
      request.on('error', () => undefined);
      const closed = new Promise((resolve) => request.once('close', resolve));
      await sleep(waitMs);
      request.destroy();
      await closed;
    }
    // By then each git program has ended, and the result of its request is known.
    await sleep(500);
    expect(service.failures).toEqual([]);
  });

  it('that leaves, or wants only the head, leaves no pipe open', async () => {
    await begin();
    const commitId = (await ok('rev-parse', 'HEAD')).trim();
    const names = Array.from({ length: 8000 }, (_, index) => `${commitId} refs/heads/b${index}\n`);
    await writeFile(join(gitDirectory, 'packed-refs'), names.join(''));
    const open = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
    const before = await open();
    for (let index = 0; index < 20; index += 1) {
      const method = index % 2 === 0 ? 'GET' : 'HEAD';
      const request = sendRequest(`${service.origin}git/Plans%202026/info/refs?service=git-upload-pack`, {
        method,
        headers: { authorization: BASIC },
        agent: false,
      }).end();
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      expect(response.statusCode).toBe(200);
      request.destroy();
    }
    await expect.poll(open).toBeLessThanOrEqual(before + 2);
  });
});
