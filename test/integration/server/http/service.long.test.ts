import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { type ClientRequest, get, type IncomingMessage, request as sendRequest } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { beforeEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';

import { contentsPath, requestHeaders } from '../../../../src/lib/api/requests.ts';
import { pageSchema } from '../../../../src/lib/api/schemas.ts';
import { type CommitPlan, makeCommits } from '../../../../src/server/demo/commits.ts';
import { Git } from '../../../../src/server/git/git.ts';
import { createWorkbookListing } from '../../../../src/server/git/listing.ts';
import { readBranches } from '../../../../src/server/git/refs.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/repositories.ts';
import type { RequestInfo } from '../../../../src/server/http/service.ts';
import { plan, write } from '../../../support/commits.ts';
import { type GitService, KEY, startGitService, TOKEN } from '../../../support/git-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { unzip } from '../../../support/zip-reader.ts';

const errorSchema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });

let root = '';
let git: Git;
let registry: Registry;
let service: GitService;
let baseUrl = '';
let requests: RequestInfo[] = [];

/** Makes a drag-and-drop repository with commits in it. */
async function create(name: string, commits: readonly CommitPlan[]): Promise<{ id: string; ids: string[] }> {
  const { id } = await registry.create(name);
  return { id, ids: commits.length === 0 ? [] : await makeCommits(git, registry.gitDirectory(id), commits) };
}

async function current(path: string, headers: Record<string, string> = {}, method = 'GET') {
  return fetch(baseUrl + path, { method, headers: { ...requestHeaders('current', KEY), ...headers } });
}

async function contents(reference: string, path?: string, branch?: string): Promise<Response> {
  return current(contentsPath(encodeURIComponent(reference), path, branch));
}

async function bytes(response: Response): Promise<Buffer> {
  expect(response.status).toBe(200);
  return Buffer.from(await response.arrayBuffer());
}

async function errorOf(response: Response): Promise<{ code: string; message: string }> {
  return errorSchema.parse(await response.json()).error;
}

function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve).once('error', reject);
  });
}

/** The files of a zip by path. */
async function filesOf(zip: Buffer): Promise<Record<string, string>> {
  return Object.fromEntries([...(await unzip(zip))].map(([path, bytes]) => [path, bytes.toString('latin1')]));
}

/** How many git programs work on repositories of this test. */
async function gitProcesses(): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(
    processes.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
  );
  return commands.filter((command) => command.includes(`--git-dir=${root}`)).length;
}

beforeEach(async () => {
  root = await temporaryFolder();
  git = new Git();
  registry = await openRegistry(join(root, 'data'));
  requests = [];
  service = await startGitService(registry, (info) => requests.push(info));
  ({ baseUrl } = service);
});

it('the registry refuses an index that is damaged', async () => {
  await writeFile(join(root, 'data', 'repositories.json'), '[{"id":');
  await expect(openRegistry(join(root, 'data'))).rejects.toMatchObject({ code: 'directory.unusable' });
});

describe('contents', () => {
  it('can only be read', async () => {
    const { status, headers } = await fetch(`${baseUrl}/repos/x/contents`, { method: 'DELETE' });
    expect([status, headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  it('are the committed bytes, for any attributes', async () => {
    const files = {
      '.gitattributes': [
        '[attr]hidden export-ignore',
        '* export-subst text eol=crlf ident filter=lfs working-tree-encoding=UTF-16LE crlf',
        'secret.txt hidden',
        'folder export-ignore',
        '',
      ].join('\n'),
      'a.txt': '$Format:%H$ $Id$\nline\r\nother\n',
      'secret.txt': 'secret\n',
      'folder/.gitattributes': '* export-ignore\n',
      'folder/b.csv': '1;2\n',
      'folder/empty': '',
      'folder/c.xlsx': randomBytes(1000).toString('latin1'),
    };
    const changes = Object.entries(files).map(([path, text]) => write(path, Buffer.from(text, 'latin1')));
    await create('Exact', [plan('main', changes)]);
    expect(await filesOf(await bytes(await contents('Exact')))).toEqual(files);
    for (const [path, text] of Object.entries(files)) {
      expect((await bytes(await contents('Exact', path))).toString('latin1')).toBe(text);
    }
  });

  it('of an empty repository are an empty zip, and of an empty branch one without files', async () => {
    await create('Empty', []);
    const zip = await bytes(await contents('Empty'));
    expect(zip).toHaveLength(22);
    expect(await filesOf(zip)).toEqual({});
    expect((await contents('Empty', 'a')).status).toBe(404);
    expect((await contents('Empty', undefined, 'main')).status).toBe(404);
    await create('Cleared', [plan('main', [])]);
    expect(await filesOf(await bytes(await contents('Cleared')))).toEqual({});
  });

  it('report missing or ambiguous paths with 404 or 409', async () => {
    await create('A', [plan('main', [write('f/x.xlsx', '1')])]);
    for (const branch of ['--help', 'main~1', 'HEAD', 'refs/heads/main', '', 'main\0x', '../heads/main']) {
      const response = await contents('A', undefined, branch);
      expect([branch, response.status]).toEqual([branch, 404]);
      expect((await errorOf(response)).code).toBe('branch_not_found');
    }
    for (const path of ['--help', ':(top)f', 'f/*', 'f/x.xlsx/y', 'f//x.xlsx', 'none', 'f\0']) {
      const response = await contents('A', path);
      expect([path, response.status]).toEqual([path, 404]);
      expect((await errorOf(response)).code).toBe('path_not_found');
    }
    expect((await errorOf(await contents('B'))).code).toBe('repository_not_found');

    const source = registry.gitDirectory((await create('S', [plan('main', [])])).id);
    await registry.connectSample('https://a.example/plan.git', source);
    await registry.connectSample('https://b.example/plan.git', source);
    const response = await contents('plan');
    expect(response.status).toBe(409);
    expect((await errorOf(response)).message).toContain('a.example/plan.git, b.example/plan.git');
  });

  it('omit submodules and give links as they were committed', async () => {
    const { id } = await create('Odd', [plan('main', [write('a', '1')])]);
    const oddities = [
      'commit refs/heads/main',
      'committer A <a@example.com> 1 +0000',
      'data 0',
      'from refs/heads/main^0',
      'M 120000 inline link.xlsx',
      'data 1',
      'a',
      `M 160000 ${'1'.repeat(40)} module`,
      'done',
      '',
    ];
    await git.run(registry.gitDirectory(id), ['fast-import', '--quiet', '--done'], {
      input: oddities.join('\n'),
    });
    expect((await contents('Odd', 'module')).status).toBe(404);
    expect((await bytes(await contents('Odd', 'link.xlsx'))).toString()).toBe('a');
    expect(await filesOf(await bytes(await contents('Odd')))).toEqual({ a: '1', 'link.xlsx': 'a' });
    expect(await service.rows()).toEqual([]);
  });

  it('are the same bytes each time, with a strong tag that spares sending them', async () => {
    const { id } = await create('A', [plan('main', [write('f/x.xlsx', '1'), write('g/x.xlsx', '2')])]);
    const paths = [undefined, 'f', 'g', 'f/x.xlsx'];
    const answers = await Promise.all(paths.map((path) => contents('A', path)));
    const tags = answers.map((answer) => answer.headers.get('etag') ?? '');
    await sleep(2100); // The times in a zip are even seconds.
    for (const [index, first] of answers.entries()) {
      const path = paths[index];
      expect(await bytes(await contents('A', path))).toEqual(await bytes(first));
      const again = await current(contentsPath('A', path), { 'if-none-match': `"x", ${tags[index] ?? ''}` });
      expect([again.status, await again.text(), again.headers.get('etag')]).toEqual([304, '', tags[index]]);
    }
    expect(new Set(tags).size).toBe(4);
    await makeCommits(git, registry.gitDirectory(id), [
      plan('main', [write('y', '2')], { from: 'refs/heads/main^0' }),
    ]);
    const changed = await current(contentsPath('A'), { 'if-none-match': tags[0] ?? '' });
    expect(await filesOf(await bytes(changed))).toMatchObject({ y: '2' });
  });

  it('can be requested in parts if they are files (RFC 9110, section 14)', async () => {
    await create('A', [plan('main', [write('y.xlsx', randomBytes(300_000))])]);
    const first = await current(contentsPath('A', 'y.xlsx'));
    const etag = first.headers.get('etag') ?? '';
    const all = await bytes(first);
    expect(first.headers.get('accept-ranges')).toBe('bytes');
    const get = (range: string, ifRange = etag): Promise<Response> =>
      current(contentsPath('A', 'y.xlsx'), { range, 'if-range': ifRange });
    for (const at of [0, 70_000, all.length - 1]) {
      const rest = await get(`bytes=${at}-`);
      expect([rest.status, rest.headers.get('content-range'), rest.headers.get('etag')]).toEqual([
        206,
        `bytes ${at}-${all.length - 1}/${all.length}`,
        etag,
      ]);
      expect(all.subarray(at).equals(Buffer.from(await rest.arrayBuffer()))).toBe(true);
    }
    const other = await get('bytes=5-', '"other"');
    expect([other.status, all.equals(await bytes(other))]).toEqual([200, true]);
    const beyond = await get(`bytes=${all.length}-`);
    expect([beyond.status, beyond.headers.get('content-range')]).toEqual([416, `bytes */${all.length}`]);
    await beyond.arrayBuffer();
    const archive = await current(contentsPath('A'), { range: 'bytes=5-' });
    expect([archive.status, archive.headers.get('accept-ranges')]).toEqual([200, null]);
    expect(Object.keys(await filesOf(await bytes(archive)))).toEqual(['y.xlsx']);
  });

  it('answer HEAD with the same headers', async () => {
    await create('A', [plan('main', [write('x.xlsx', '12345')])]);
    for (const path of [undefined, 'x.xlsx']) {
      const headers = async (method: string): Promise<Record<string, string>> => {
        const response = await current(contentsPath('A', path), {}, method);
        expect(response.status).toBe(200);
        if (method === 'HEAD') expect(await response.text()).toBe('');
        else await response.arrayBuffer();
        const aboutTheConnection = new Set(['connection', 'date', 'keep-alive', 'transfer-encoding']);
        const all = [...response.headers].filter(([name]) => !aboutTheConnection.has(name));
        return Object.fromEntries(all);
      };
      expect(await headers('HEAD')).toEqual(await headers('GET'));
    }
    expect((await current(contentsPath('B'), {}, 'HEAD')).status).toBe(404);
  });
});

describe('broken contents', () => {
  /** A repository of two files; git cannot read the second. */
  async function damaged(first: Uint8Array): Promise<void> {
    const { id } = await create('D', [plan('main', [write('a', first), write('b.xlsx', 'gone')])]);
    const gitDirectory = registry.gitDirectory(id);
    const blob = (await git.run(gitDirectory, ['rev-parse', 'refs/heads/main:b.xlsx'])).toString().trim();
    await rm(join(gitDirectory, 'objects', blob.slice(0, 2), blob.slice(2)));
  }

  it('are an error before the first byte, with the reason in the log only', async () => {
    await damaged(Buffer.alloc(0));
    const response = await contents('D', 'b.xlsx');
    expect(response.status).toBe(500);
    expect((await errorOf(response)).message).not.toContain(root);
    await expect.poll(() => requests.at(-1)).toMatchObject({ status: 500, method: 'GET' });
    expect(String(requests.at(-1)?.error)).toContain('git');
  });

  it('are a cut connection after it', async () => {
    await damaged(randomBytes(3_000_000));
    const response = await contents('D');
    expect(response.status).toBe(200);
    await expect(response.arrayBuffer()).rejects.toThrow();
  });
});

describe.skipIf(process.platform !== 'linux')('git programs', () => {
  async function start(path: string): Promise<IncomingMessage> {
    const request = get(baseUrl + path, { headers: requestHeaders('current', KEY) });
    const response = await responseTo(request);
    await once(response, 'readable');
    return response;
  }

  beforeEach(async () => {
    await create('Large', [plan('main', [write('a.bin', randomBytes(16_000_000)), write('b.bin', 'b')])]);
  });

  it('wait for a slow client and end when it goes away', async () => {
    const responses = await Promise.all([
      start(contentsPath('Large')),
      start(contentsPath('Large')),
      start(contentsPath('Large', 'a.bin')),
    ]);
    await sleep(200);
    await expect.poll(gitProcesses).toBe(3);
    for (const response of responses) response.destroy();
    await expect.poll(gitProcesses).toBe(0);
    await expect.poll(() => requests.length).toBe(3);
    expect(requests.every(({ error }) => error === undefined)).toBe(true);
    expect((await bytes(await contents('Large', 'b.bin'))).toString()).toBe('b');
  });

  it('are gone when the service has closed, and the client sees a broken answer', async () => {
    const response = await start(contentsPath('Large'));
    const ended = once(response, 'end').then(
      () => 'whole',
      () => 'broken',
    );
    await service.close();
    expect(await gitProcesses()).toBe(0);
    response.resume();
    expect(await ended).toBe('broken');
    await expect(current('/repos')).rejects.toThrow();
  });
});

describe('the list of workbooks', () => {
  it('has a row for each workbook on each branch, in order, with its version', async () => {
    const { ids } = await create('Accounting', [
      plan('main', [write('Ä b/x.xlsx', '1'), write('y.ODS', '1'), write('z.txt', '1')]),
      plan('main', [write('Ä b/x.xlsx', '2')], {
        at: new Date('2026-01-03T00:00:00Z'),
        message: 'second\n\nbody',
      }),
      plan('feature/q3', [write('y.ODS', '2')], { from: 'refs/heads/main' }),
    ]);
    const list = await service.rows();
    expect(list.map(({ id, version }) => `${id} ${version.branch}`)).toEqual([
      'Accounting/y.ODS feature/q3',
      'Accounting/y.ODS main',
      'Accounting/Ä b/x.xlsx feature/q3',
      'Accounting/Ä b/x.xlsx main',
    ]);
    expect(list[3]).toEqual({
      type: 'workbook',
      id: 'Accounting/Ä b/x.xlsx',
      name: '/Ä b/x.xlsx',
      display_name: 'x.xlsx',
      integration: 'Accounting',
      version: {
        id: ids[1],
        author: 'Änne Größe',
        action: 'modify',
        created_at: '2026-01-03T00:00:00+00:00',
        message: 'second\n\nbody',
        status: 'success',
        branch: 'main',
        parent: { id: ids[0] },
      },
      status: { processing: 0, failure: 0 },
    });
  });

  it('reads nothing again while no branch moves, and only new commits when one does', async () => {
    const { id } = await create('A', [plan('main', [write('x.xlsx', '1')])]);
    const watched = new Git();
    const { calls } = vi.spyOn(watched, 'tokens').mock;
    const listing = createWorkbookListing(watched, registry);
    const first = await listing.rows();
    const readOnce = calls.length;
    expect(await listing.rows()).toBe(first);
    expect(calls).toHaveLength(readOnce);
    const gitDirectory = registry.gitDirectory(id);
    const old = (await readBranches(git, gitDirectory)).heads.get('main') ?? '';
    await makeCommits(git, gitDirectory, [plan('main', [write('y.xlsx', '1')], { from: old })]);
    expect(await listing.rows()).toHaveLength(2);
    expect(calls.length).toBeGreaterThan(readOnce);
    const ranges = calls.slice(readOnce).map(([, , , range = '']) => range);
    expect(ranges).toEqual([expect.stringContaining(`\n^${old}\n`)]);
  });
});

it('other pages are linked at the address that the client used', async () => {
  await create('A', [plan('main', [write('x.xlsx', '1'), write('y.xlsx', '1')])]);
  const next = async (host: string, more: Record<string, string> = {}): Promise<string> => {
    const headers = { ...requestHeaders('v1', TOKEN), host, ...more };
    const request = sendRequest(`${baseUrl}/v1/workbooks?page_size=1`, { headers });
    request.end();
    const response = await responseTo(request);
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
    return pageSchema.parse(JSON.parse(Buffer.concat(chunks).toString())).next ?? '';
  };
  expect(await next('mirror.example:81')).toBe(
    'http://mirror.example:81/api/v1/workbooks?page_size=1&page=2',
  );
  expect(await next('mirror.example', { 'x-forwarded-proto': 'https' })).toBe(
    'https://mirror.example/api/v1/workbooks?page_size=1&page=2',
  );
  expect(await next('no host at all')).toBe(`${baseUrl}/v1/workbooks?page_size=1&page=2`);
});
