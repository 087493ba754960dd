import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { once } from 'node:events';
import { request as sendRequest } from 'node:http';
import { join } from 'node:path';

import * as fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { openRegistry } from '../../../../src/server/git/registry.ts';
import { branchNameProblem, pathProblem } from '../../../../src/server/git/upload-rules.ts';
import {
  git,
  GROUP_KEY,
  KEY,
  startUploadService,
  type UploadService,
} from '../../../support/upload-service.ts';

const errorSchema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });
const branchesSchema = z.strictObject({
  defaultBranch: z.string().nullable(),
  branches: z.array(z.strictObject({ name: z.string(), commitId: z.string() })),
});
const blobSchema = z.strictObject({ blobId: z.string(), sizeBytes: z.number() });
const commitSchema = z.strictObject({ commitId: z.string() });

interface Asked {
  readonly method?: string;
  readonly body?: string | Buffer;
  readonly key?: string | null;
}

let service: UploadService;
let id = '';
let gitDirectory = '';

async function ask(path: string, { method = 'GET', body, key = KEY }: Asked = {}): Promise<Response> {
  return fetch(`${service.origin}uploads/repositories${path}`, {
    method,
    headers: key === null ? {} : { 'x-api-key': key },
    ...(body === undefined ? {} : { body }),
  });
}

async function refusal(response: Response): Promise<string> {
  return `${response.status} ${errorSchema.parse(await response.json()).error.code}`;
}

async function send(bytes: Buffer | string): Promise<string> {
  const response = await ask(`/${id}/files`, { method: 'POST', body: bytes });
  expect(response.status).toBe(201);
  const { blobId, sizeBytes } = blobSchema.parse(await response.json());
  expect(sizeBytes).toBe(Buffer.from(bytes).length);
  return blobId;
}

/** What a test of commits leaves out. */
interface Given {
  readonly branch?: string;
  readonly seenCommitId?: string | null;
  readonly startFrom?: string | null;
  readonly message?: string;
  readonly files?: Readonly<Record<string, string>>;
}

function commit({ files = {}, ...given }: Given): Promise<Response> {
  const whole = { branch: 'main', seenCommitId: null, startFrom: null, message: 'Upload', ...given };
  const rows = Object.entries(files).map(([path, blobId]) => ({ path, blobId }));
  return ask(`/${id}/commits`, { method: 'POST', body: JSON.stringify({ ...whole, files: rows }) });
}

async function committed(given: Given): Promise<string> {
  const response = await commit(given);
  expect([response.status, await response.clone().text()]).toEqual([201, expect.any(String)]);
  return commitSchema.parse(await response.json()).commitId;
}

async function shown(...args: readonly string[]): Promise<string> {
  const { code, said } = await git(service.folder, `--git-dir=${gitDirectory}`, ...args);
  expect([code, said]).toEqual([0, said]);
  return said;
}

beforeEach(async () => {
  service = await startUploadService(10_000_000);
  ({ id } = await service.registry.create('Plans'));
  gitDirectory = service.registry.gitDirectory(id);
  return () => expect(service.failures).toEqual([]);
});

describe('what the page asks for', () => {
  it('is for personal keys only', async () => {
    expect(await refusal(await ask('', { key: null }))).toBe('401 unauthorized');
    expect(await refusal(await ask('', { key: 'another' }))).toBe('401 unauthorized');
    expect(await refusal(await ask('', { key: GROUP_KEY }))).toBe('403 group_key');
    const basic = `Basic ${Buffer.from(`x:${KEY}`).toString('base64')}`;
    const response = await fetch(`${service.origin}uploads/repositories`, {
      headers: { authorization: basic },
    });
    expect(response.status).toBe(401);
  });

  it('lists repositories, branches and folders', async () => {
    const list = await (await ask('')).json();
    expect(list).toEqual({
      maxUploadBytes: 10_000_000,
      repositories: [{ id, name: 'Plans', full_name: 'Plans', url: null, takesFiles: true }],
    });
    expect(await (await ask(`/${id}/branches`)).json()).toEqual({ defaultBranch: 'main', branches: [] });
    const blobId = await send('12345');
    const commitId = await committed({ files: { 'a/b/Ü 1.xlsx': blobId, 'c.xlsx': blobId } });
    const branches = branchesSchema.parse(await (await ask(`/${id}/branches`)).json());
    expect(branches).toEqual({ defaultBranch: 'main', branches: [{ name: 'main', commitId }] });
    const folder = async (path: string): Promise<unknown> =>
      (await ask(`/${id}/folder?${new URLSearchParams({ commit: commitId, path }).toString()}`)).json();
    expect(await folder('')).toEqual({
      entries: [
        { name: 'a', kind: 'folder', sizeBytes: 0 },
        { name: 'c.xlsx', kind: 'file', sizeBytes: 5 },
      ],
    });
    expect(await folder('a/b')).toEqual({ entries: [{ name: 'Ü 1.xlsx', kind: 'file', sizeBytes: 5 }] });
  });

  it('takes a name that is unique in the place of the id', async () => {
    const named = await ask('/Plans/branches');
    expect([named.status, await named.text()]).toEqual([200, await (await ask(`/${id}/branches`)).text()]);
  });

  it('says what does not exist', async () => {
    const commitId = await committed({ files: { 'c.xlsx': await send('1') } });
    const asks: [string, string, Asked?][] = [
      ['/nope/branches', '404 repository_not_found'],
      [`/${id}/nope`, '404 not_found'],
      [`/${id}`, '404 not_found'],
      [`/${id}/branches/x`, '404 not_found'],
      [`/${id}/folder`, '400 invalid'],
      [`/${id}/folder?commit=main`, '404 commit_not_found'],
      [`/${id}/folder?commit=${'0'.repeat(40)}`, '404 commit_not_found'],
      [`/${id}/folder?commit=${commitId}&path=nope`, '404 path_not_found'],
      [`/${id}/folder?commit=${commitId}&path=c.xlsx`, '404 path_not_found'],
      [`/${id}/folder?commit=${commitId}&path=..`, '404 path_not_found'],
      [`/${id}/branches`, '405 method_not_allowed', { method: 'POST' }],
      [`/${id}/files`, '405 method_not_allowed'],
      ['', '405 method_not_allowed', { method: 'POST' }],
    ];
    for (const [path, expected, options] of asks)
      expect([path, await refusal(await ask(path, options))]).toEqual([path, expected]);
  });
});

describe('a file that is uploaded', () => {
  it('is in Git byte for byte, and nothing lies about afterwards', async () => {
    const bytes = randomBytes(3_000_000);
    const blobId = await send(bytes);
    const commitId = await committed({ files: { 'new folder/a.xlsx': blobId }, message: ' Größe\r\n' });
    const response = await fetch(`${service.origin}api/repos/Plans/contents/new%20folder/a.xlsx`, {
      headers: { 'x-api-key': KEY },
    });
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    expect(await shown('cat-file', 'commit', commitId)).toMatch(
      /^tree \w+\nauthor Anna Ångström <> \d+ \+0000\ncommitter Anna Ångström <> \d+ \+0000\n\n Größe\r\n$/,
    );
    expect(await readdir(join(gitDirectory, '..'))).toEqual([`${id}.git`]);
    expect(await shown('fsck', '--strict')).toBe('');
  });

  it('comes under conditions, and in parts (RFC 9110, sections 13 and 14)', async () => {
    await committed({ files: { 'a.xlsx': await send('12345') } });
    const get = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${service.origin}api/repos/Plans/contents/a.xlsx`, {
        headers: { 'x-api-key': KEY, ...headers },
      });
    const etag = (await get({})).headers.get('etag') ?? '';
    const changed = await get({ 'if-match': '"x"', 'if-none-match': etag });
    expect([await refusal(changed), changed.headers.get('etag')]).toEqual(['412 changed', etag]);
    expect((await get({ 'if-match': `"x", ${etag}` })).status).toBe(200);
    expect((await get({ 'if-match': `W/${etag}` })).status).toBe(412);
    expect((await get({ 'if-match': etag, 'if-none-match': etag })).status).toBe(304);
    const beyond = await get({ range: 'bytes=5-' });
    expect(await refusal(beyond)).toBe('416 range_not_satisfiable');
    expect(['etag', 'accept-ranges', 'content-range'].map((name) => beyond.headers.get(name))).toEqual([
      etag,
      'bytes',
      'bytes */5',
    ]);
  });

  it('is refused above the limit, whether or not its length is told', async () => {
    const large = Buffer.alloc(10_000_001);
    expect(await refusal(await ask(`/${id}/files`, { method: 'POST', body: large }))).toBe('413 too_large');
    const request = sendRequest(`${service.origin}uploads/repositories/${id}/files`, {
      method: 'POST',
      headers: { 'x-api-key': KEY, 'transfer-encoding': 'chunked' },
    });
    request.on('error', () => undefined);
    request.end(large);
    const [response] = (await once(request, 'response')) as [{ statusCode: number }];
    expect(response.statusCode).toBe(413);
    await send(large.subarray(1));
    await expect.poll(() => readdir(join(gitDirectory, '..'))).toEqual([`${id}.git`]);
  });

  it('leaves nothing when its sender breaks off', async () => {
    const request = sendRequest(`${service.origin}uploads/repositories/${id}/files`, {
      method: 'POST',
      headers: { 'x-api-key': KEY, 'content-length': 1000 },
    });
    request.on('error', () => undefined);
    request.write(Buffer.alloc(500));
    await expect.poll(async () => (await readdir(join(gitDirectory, '..'))).length).toBe(2);
    request.destroy();
    await expect.poll(() => readdir(join(gitDirectory, '..'))).toEqual([`${id}.git`]);
    expect(await shown('count-objects')).toContain('0 objects');
  });

  it('that a crash left half received is gone when the service starts again', async () => {
    await mkdir(join(gitDirectory, '..', 'incoming-upload-x'));
    const again = await openRegistry(join(service.folder, 'service'));
    expect(await readdir(join(gitDirectory, '..'))).toEqual([`${id}.git`]);
    await again.close();
  });

  it('never goes into a repository that is connected to another one', async () => {
    const source = join(service.folder, 'source.git');
    await git(service.folder, 'init', '--quiet', '--bare', source);
    const url = 'https://git.example.com/a/b.git';
    const external = await service.registry.connect({ url, source });
    for (const what of ['files', 'commits']) {
      const response = await ask(`/${external.id}/${what}`, { method: 'POST', body: '{}' });
      expect(await refusal(response)).toBe('409 external');
    }
    expect(await (await ask('')).json()).toMatchObject({ repositories: [{}, { url, takesFiles: false }] });
    expect((await ask(`/${external.id}/branches`)).status).toBe(200);
  });
});

describe('a commit', () => {
  it('adds to a branch, starts one from another, or starts one empty', async () => {
    const one = await send('1');
    const two = await send('2');
    const first = await committed({ files: { 'a/1': one } });
    const second = await committed({ seenCommitId: first, files: { 'a/2': two, 'a/1': two } });
    expect(await shown('log', '--format=%H', 'main')).toBe(`${second}\n${first}\n`);
    expect(await shown('ls-tree', '-r', '--name-only', 'main')).toBe('a/1\na/2\n');
    const third = await committed({ branch: 'work/x', startFrom: 'main', files: { b: one } });
    expect(await shown('log', '--format=%H', 'work/x')).toBe(`${third}\n${second}\n${first}\n`);
    const fourth = await committed({ branch: 'other', files: { b: one } });
    expect(await shown('log', '--format=%H', 'other')).toBe(`${fourth}\n`);
  });

  it('makes the first branch the default one', async () => {
    await committed({ branch: 'drafts', files: { 'a.xlsx': await send('1') } });
    const response = await fetch(`${service.origin}api/repos/${id}/contents/a.xlsx`, {
      headers: { 'x-api-key': KEY },
    });
    expect(await response.text()).toBe('1');
  });

  it('is on the default branch also when the service ended before it was made that', async () => {
    await committed({ branch: 'drafts', files: { 'a.xlsx': await send('1') } });
    for (const command of [['pack-refs'], ['pack-refs', '--all']]) {
      await shown('symbolic-ref', 'HEAD', 'refs/heads/main');
      await shown(...command);
      await (await openRegistry(join(service.folder, 'service'))).close();
      expect(await shown('symbolic-ref', 'HEAD')).toBe('refs/heads/drafts\n');
    }
  });

  it('never overwrites what its author has not seen', async () => {
    const one = await send('1');
    const two = await send('2');
    const first = await committed({ files: { a: one } });
    expect(await refusal(await commit({ files: { a: two } }))).toBe('409 moved');
    const second = await committed({ seenCommitId: first, files: { a: two } });
    expect(await refusal(await commit({ seenCommitId: first, files: { b: two } }))).toBe('409 moved');
    expect(await refusal(await commit({ branch: 'gone', seenCommitId: first, files: { b: two } }))).toBe(
      '409 moved',
    );
    expect(await shown('rev-parse', 'main')).toBe(`${second}\n`);
  });

  it('is made by one of many who try at once, and the others are told', async () => {
    const blobId = await send('1');
    const seenCommitId = await committed({ files: { a: blobId } });
    const tries = Array.from({ length: 12 }, (_, index) =>
      commit({ seenCommitId, files: { [`b${index}`]: blobId } }),
    );
    const statuses = (await Promise.all(tries)).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 409)).toEqual([201]);
    expect(await shown('rev-list', '--count', 'main')).toBe('2\n');
  });

  it('is refused for what cannot be committed, and changes nothing', async () => {
    const blobId = await send('1');
    const first = await committed({ files: { 'a/b': blobId } });
    const seen = { seenCommitId: first };
    const tries: [Given, string][] = [
      [{ ...seen, files: { 'a/b': blobId } }, '409 unchanged'],
      [{ ...seen, files: { a: blobId } }, '409 conflict'],
      [{ ...seen, files: { 'a/b/c': blobId } }, '409 conflict'],
      [{ branch: 'main/x', files: { c: blobId } }, '409 conflict'],
      [{ branch: 'x', startFrom: 'nope', files: { c: blobId } }, '404 branch_not_found'],
      [{ ...seen, startFrom: 'main', files: { c: blobId } }, '400 invalid'],
      [{ branch: 'a..b', files: { c: blobId } }, '400 invalid'],
      [{ ...seen, files: { '../c': blobId } }, '400 invalid'],
      [{ ...seen, files: { '.git/config': blobId } }, '400 invalid'],
      [{ ...seen, files: {} }, '400 invalid'],
      [{ ...seen, files: { 'A/x': blobId } }, '409 conflict'],
      [{ ...seen, files: { 'a/B': blobId } }, '409 conflict'],
      [{ ...seen, files: { x: blobId, X: blobId } }, '409 conflict'],
      [{ ...seen, files: { ['a/'.repeat(64) + 'a']: blobId } }, '400 invalid'],
      [{ ...seen, message: ' ', files: { c: blobId } }, '400 invalid'],
      [{ ...seen, files: { c: 'main' } }, '400 invalid'],
      [{ ...seen, files: { c: first } }, '400 file_not_received'],
      [{ ...seen, files: { c: 'a'.repeat(40) } }, '400 file_not_received'],
    ];
    for (const [given, expected] of tries)
      expect([given, await refusal(await commit(given))]).toEqual([given, expected]);
    for (const body of ['', '[]', '{"branch":"main"}', '{"branch":1}'])
      expect(await refusal(await ask(`/${id}/commits`, { method: 'POST', body }))).toBe('400 invalid');
    const partial = '{"branch":"main","seenCommitId":null,"message":"m","files":[]}';
    const answer = await ask(`/${id}/commits`, { method: 'POST', body: partial });
    expect(await answer.text()).toContain('startFrom: is missing: give a text, or null for none');
    const huge = Buffer.alloc(9_000_000, ' ');
    expect(await refusal(await ask(`/${id}/commits`, { method: 'POST', body: huge }))).toBe('413 too_large');
    expect(await shown('for-each-ref', '--format=%(refname) %(objectname)')).toBe(
      `refs/heads/main ${first}\n`,
    );
  });

  it('takes the place of no link and no submodule unseen', async () => {
    const target = await send('elsewhere');
    const submodule = 'b'.repeat(40);
    const work = join(service.folder, 'work');
    await git(service.folder, 'clone', '--quiet', gitDirectory, work);
    await git(work, 'update-index', '--add', '--cacheinfo', `160000,${submodule},sub`);
    await git(work, 'commit', '--quiet', '--message', 'submodule');
    await git(work, 'push', '--quiet', 'origin', 'HEAD:main');
    const seenCommitId = (await shown('rev-parse', 'main')).trim();
    expect(await refusal(await commit({ seenCommitId, files: { 'sub/a': target } }))).toBe('409 conflict');
  });
});

describe('a check', () => {
  async function checked(given: Record<string, unknown>): Promise<unknown> {
    const body = JSON.stringify({ branch: 'main', seenCommitId: null, startFrom: null, ...given });
    const response = await ask(`/${id}/checks`, { method: 'POST', body });
    expect(response.status).toBe(200);
    return response.json();
  }

  it('says by the names alone what a commit would be refused for, and what it would replace', async () => {
    const first = await committed({ files: { 'a/b': await send('1'), c: await send('2') } });
    const seen = { seenCommitId: first };
    expect(await checked({ ...seen, paths: ['c', 'a/b', 'd'] })).toEqual({
      problems: [],
      replaces: ['c', 'a/b'],
    });
    expect(await checked({ branch: 'new', startFrom: 'main', paths: ['c', 'x'] })).toEqual({
      problems: [],
      replaces: ['c'],
    });
    expect(await checked({ branch: 'empty', paths: ['c'] })).toEqual({ problems: [], replaces: [] });
    const paths = ['.git/x', 'a', 'c/x', 'A/y', 'C', 'fine', '../x'];
    expect(await checked({ ...seen, paths })).toEqual({
      problems: [
        { path: '.git/x', message: 'has a part that Git keeps for itself' },
        { path: '../x', message: 'has a part . or ..' },
        { path: 'a', message: 'would take the place of a folder' },
        { path: 'c/x', message: 'lies below "c", which is a file' },
        { path: 'A/y', message: expect.stringContaining('"a" only in case') as unknown },
        { path: 'C', message: expect.stringContaining('"c" only in case') as unknown },
      ],
      replaces: [],
    });
    expect(await shown('count-objects')).toContain('5 objects');
  });

  it('says what is wrong with the branch', async () => {
    await committed({ files: { c: await send('2') } });
    const told = (message: string): unknown => ({
      problems: [{ path: null, message: expect.stringContaining(message) as unknown }],
      replaces: [],
    });
    expect(await checked({ paths: ['x'] })).toEqual(told('there is a branch main already'));
    expect(await checked({ branch: 'a..b', paths: ['x'] })).toEqual(told('holds ..'));
    expect(await checked({ branch: 'x', startFrom: 'nope', paths: ['x'] })).toEqual(told('no branch nope'));
    expect(await checked({ branch: 'main/x', paths: ['x'] })).toEqual(told('beside the branch main'));
    expect(await checked({ branch: 'x', paths: [] })).toEqual(told('no file'));
  });

  it('has limits, and tells them', async () => {
    const many = Array.from({ length: 10_001 }, (_, index) => `f${index}`);
    expect(await checked({ paths: many })).toEqual({
      problems: [{ path: null, message: expect.stringContaining('10000 files') as unknown }],
      replaces: [],
    });
    const deep = Array.from({ length: 200 }, (_, index) => `${index}/${'a/'.repeat(60)}x`);
    expect(await checked({ paths: deep })).toEqual({
      problems: [{ path: null, message: expect.stringContaining('10000 folders') as unknown }],
      replaces: [],
    });
    expect(await refusal(await ask(`/${id}/checks`, { method: 'POST', body: '{}' }))).toBe('400 invalid');
  });
});

describe('the rules for names', () => {
  it('for branches are those of Git', async () => {
    const units = fc.constantFrom(
      'a',
      'B',
      '.',
      '/',
      '-',
      '@',
      '{',
      '~',
      ' ',
      'ü',
      '.lock',
      '..',
      '*',
      '\\',
      ':',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(units, { maxLength: 5 }), async (parts) => {
        const name = parts.join('');
        const { code } = await git(service.folder, 'check-ref-format', `refs/heads/${name}`);
        const isName = branchNameProblem(name) === null;
        // Besides, a branch has no name that git's commands take for something else.
        const isSpecial = name === '@' || name === 'HEAD' || name.startsWith('-');
        expect([name, isName]).toEqual([name, code === 0 && !isSpecial]);
      }),
      { numRuns: 150 },
    );
  });

  it('for paths let nothing through that Git refuses', async () => {
    const blobId = await send('1');
    const units = fc.constantFrom(
      'a',
      '.',
      '/',
      '.git',
      'GIT',
      '~1',
      ' ',
      ':',
      '\\',
      'ü',
      '\u200c',
      '\n',
      '*',
      '"',
    );
    await fc.assert(
      fc.asyncProperty(fc.array(units, { minLength: 1, maxLength: 4 }), async (parts) => {
        const path = parts.join('');
        fc.pre(pathProblem(path) === null);
        const branch = `b-${crypto.randomUUID()}`;
        const commitId = await committed({ branch, files: { [path]: blobId } });
        expect(await shown('ls-tree', '-r', '-z', '--name-only', commitId)).toBe(`${path}\0`);
      }),
      { numRuns: 25 },
    );
  });
});

describe('the page', () => {
  it('is served with a policy that lets it do nothing else, and asked for again only when it changed', async () => {
    const response = await fetch(service.origin);
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
    const policy = response.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('unsafe');
    expect(response.headers.get('x-content-type-options')).toBe('nosniff');
    expect(response.headers.get('referrer-policy')).toBe('no-referrer');
    const html = await response.text();
    for (const [, file] of html.matchAll(/(?:src|href)="(page\/[^"]+)"/g))
      expect([file, (await fetch(service.origin + file)).status]).toEqual([file, 200]);
    const etag = response.headers.get('etag') ?? '';
    const again = await fetch(service.origin, { headers: { 'if-none-match': etag } });
    expect([again.status, await again.text()]).toEqual([304, '']);
  });

  it('has no other files', async () => {
    for (const path of [
      'page/',
      'page/nope.js',
      'page/server/uploads/page/..%2fpage.js',
      'page/server/uploads/page/tsconfig.json',
      'page/%',
    ])
      expect([path, (await fetch(service.origin + path)).status]).toEqual([path, 404]);
    expect((await fetch(service.origin, { method: 'POST' })).status).toBe(405);
  });
});
