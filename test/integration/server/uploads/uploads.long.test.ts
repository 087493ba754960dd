import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readdir } from 'node:fs/promises';
import { request as sendRequest } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { openRegistry } from '../../../../src/server/git/repositories.ts';
import {
  git,
  GROUP_KEY,
  KEY,
  startUploadService,
  type UploadService,
} from '../../../support/upload-service.ts';

let service: UploadService;
let gitDirectory = '';

/** Fields of the form, and files by their names. */
type Given = Readonly<Record<string, string>>;

/** Sends the form as a browser does. @returns the status, and how the page says that it ended */
async function upload(files: Readonly<Record<string, string | Uint8Array<ArrayBuffer>>>, fields: Given = {}) {
  const form = new FormData();
  const all = { key: KEY, repository: 'Plans', branch: '', folder: '', message: '', ...fields };
  for (const [name, value] of Object.entries(all)) form.set(name, name === 'key' ? `${value}\n` : value);
  for (const [name, bytes] of Object.entries(files)) form.append('files', new Blob([bytes]), name);
  return outcomeOf(await fetch(service.origin, { method: 'POST', body: form }));
}

async function outcomeOf(response: Response): Promise<[number, string]> {
  const [, text = ''] = /<p\s+id="result"[^>]*>([^<]*)<\/p\s*>/.exec(await response.text()) ?? [];
  const read = text.replaceAll(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)));
  return [response.status, read];
}

async function shown(...args: readonly string[]): Promise<string> {
  const { code, said } = await git(service.folder, `--git-dir=${gitDirectory}`, ...args);
  expect([code, said]).toEqual([0, said]);
  return said;
}

beforeEach(async () => {
  service = await startUploadService(10_000_000);
  const { id } = await service.registry.create('Plans');
  gitDirectory = service.registry.gitDirectory(id);
  return () => expect(service.failures).toEqual([]);
});

describe('an upload', () => {
  it('is one commit of its key, with its message, byte for byte', async () => {
    const bytes = randomBytes(3_000_000);
    const message = ' Größe\r\n\r\nfor "review"';
    expect(
      await upload({ 'Ü "1" <b>.bin': bytes, 'b.txt': '' }, { folder: '/plans/ 2026/', message }),
    ).toEqual([
      200,
      expect.stringMatching(
        /^Committed to Plans, branch main, as [0-9a-f]{7}:\nplans\/2026\/Ü "1" <b>.bin\nplans\/2026\/b.txt$/,
      ),
    ]);
    const response = await fetch(
      `${service.origin}api/repos/Plans/contents/plans/2026/${encodeURIComponent('Ü "1" <b>.bin')}`,
      { headers: { 'x-api-key': KEY } },
    );
    expect(Buffer.from(await response.arrayBuffer()).equals(bytes)).toBe(true);
    expect(await shown('cat-file', 'commit', 'main')).toMatch(
      /^tree \w+\nauthor Anna Ångström <> \d+ \+0000\ncommitter Anna Ångström <> \d+ \+0000\n\nGröße\n\nfor "review"\n$/,
    );
    expect(await readdir(join(gitDirectory, '..'))).toHaveLength(1);
  });

  it('adds to a branch, or begins one with the default branch', async () => {
    await upload({ a: '1' }, { branch: 'drafts' });
    expect(await shown('symbolic-ref', 'HEAD')).toBe('refs/heads/drafts\n');
    await upload({ a: '2', b: '2' });
    await upload({ c: '3' }, { branch: 'work/x' });
    expect(await shown('ls-tree', '-r', '--name-only', 'work/x')).toBe('a\nb\nc\n');
    expect(await shown('log', '--format=%s', 'work/x')).toBe('Upload c\nUpload 2 files\nUpload a\n');
    expect(await shown('show', 'drafts:a')).toBe('2');
  });

  it('warns of a file with the name but not the content of a workbook, and commits it', async () => {
    const [status, text] = await upload({ 'notes.xlsx': 'no workbook', 'notes.txt': 'x' });
    expect([status, text.split('\n').slice(1)]).toEqual([
      200,
      [
        'notes.xlsx',
        'notes.txt',
        expect.stringContaining('Warning: notes.xlsx is named as a workbook') as unknown,
      ],
    ]);
    expect(await shown('show', 'main:notes.xlsx')).toBe('no workbook');
  });

  it('is for personal keys and drag-and-drop repositories alone', async () => {
    const source = join(service.folder, 'source.git');
    await git(service.folder, 'init', '--quiet', '--bare', source);
    await service.registry.connectSample('https://git.example.com/a/b.git', source);
    const tries: [Given, number, string][] = [
      [{ key: '' }, 401, 'the key is missing'],
      [{ key: 'token-of-anna' }, 401, 'use a personal API key'],
      [{ key: GROUP_KEY }, 403, 'a group key is for incoming webhooks only'],
      [{ repository: '<i>' }, 404, 'there is no repository <i>; these accept files: Plans'],
      [{ repository: 'b' }, 409, 'connected to an external Git repository'],
    ];
    for (const [fields, status, text] of tries)
      expect(await upload({ a: '1' }, fields)).toEqual([status, expect.stringContaining(text)]);
    const late = new FormData();
    late.append('files', new Blob(['1']), 'a');
    late.set('key', KEY);
    expect(await outcomeOf(await fetch(service.origin, { method: 'POST', body: late }))).toEqual([
      401,
      expect.any(String),
    ]);
    expect(await shown('count-objects')).toContain('0 objects');
  });

  it('that cannot be committed changes nothing, and says why', async () => {
    await upload({ b: '1' }, { folder: 'a' });
    const tries: [Given, Given, number, string][] = [
      [{ b: '1' }, { folder: 'a' }, 409, 'nothing would change'],
      [{ a: '1' }, {}, 400, 'cannot be committed under these names'],
      [{ c: '1' }, { folder: 'a/b' }, 400, 'cannot be committed under these names'],
      [{ config: '1' }, { folder: '.git' }, 400, 'cannot be committed under these names'],
      [{ c: '1' }, { folder: '..' }, 400, 'leads to another folder'],
      [{ c: '1' }, { folder: 'a\\b' }, 400, 'has a backslash in its name'],
      [{ ['c'.repeat(256)]: '1' }, {}, 400, 'has a name of more than 255 bytes'],
      [{ c: '1' }, { branch: 'a..b' }, 400, 'Git does not accept "a..b" as the name of a branch'],
      [{ c: '1' }, { branch: 'main/x' }, 409, 'together with the branch main'],
      [{ c: '1' }, { message: 'x'.repeat(70_000) }, 413, 'a field of the form may have 65536 bytes'],
      [{}, {}, 400, 'no file was chosen'],
    ];
    const before = await shown('for-each-ref');
    for (const [files, fields, status, text] of tries)
      expect([files, fields, ...(await upload(files, fields))]).toEqual([
        files,
        fields,
        status,
        expect.stringContaining(text),
      ]);
    const twice = new FormData();
    for (const [name, value] of Object.entries({ key: KEY, repository: 'Plans' })) twice.set(name, value);
    for (const bytes of ['1', '2']) twice.append('files', new Blob([bytes]), 'same.xlsx');
    const [status, text] = await outcomeOf(await fetch(service.origin, { method: 'POST', body: twice }));
    expect([status, text]).toEqual([400, expect.stringContaining('same.xlsx occurs twice')]);
    expect(await shown('for-each-ref')).toBe(before);
  });

  it('is made by one of many who try at once on a new branch, and the others are asked to try again', async () => {
    const tries = Array.from({ length: 6 }, (_, index) => upload({ [`b${index}`]: '1' }, { branch: 'new' }));
    const statuses = (await Promise.all(tries)).map(([status]) => status);
    const done = statuses.filter((status) => status === 200).length;
    expect(new Set(statuses)).toEqual(new Set(done === 6 ? [200] : [200, 409]));
    expect(await shown('rev-list', '--count', 'new')).toBe(`${done}\n`);
  });

  it('may have files up to the limit', async () => {
    expect((await upload({ a: Buffer.alloc(10_000_000) }))[0]).toBe(200);
    expect(await upload({ b: Buffer.alloc(10_000_001) })).toEqual([
      413,
      expect.stringContaining('10000000 bytes'),
    ]);
  });

  it('leaves nothing when its sender breaks off, or the service crashes', async () => {
    const request = sendRequest(service.origin, {
      method: 'POST',
      headers: { 'content-type': 'multipart/form-data; boundary="x y"', 'content-length': 5000 },
    });
    request.on('error', () => undefined);
    const fields = { key: KEY, repository: 'Plans' };
    for (const [name, value] of Object.entries(fields))
      request.write(`--x y\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`);
    request.write('--x y\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nhalf');
    await expect.poll(async () => (await readdir(join(gitDirectory, '..'))).length).toBe(2);
    request.destroy();
    await expect.poll(async () => (await readdir(join(gitDirectory, '..'))).length).toBe(1);
    await mkdir(join(gitDirectory, '..', 'incoming-upload-x'));
    await (await openRegistry(join(service.folder, 'service'))).close();
    expect(await readdir(join(gitDirectory, '..'))).toHaveLength(1);
  });

  it('that is refused is read to its end, for senders that read no answer before', async () => {
    expect(await upload({ a: Buffer.alloc(9_000_000) }, { key: 'other' })).toEqual([
      401,
      expect.stringContaining('the key is not valid'),
    ]);
    const sending = connect(Number(new URL(service.origin).port), '127.0.0.1');
    onTestFinished(() => void sending.destroy());
    const head = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n';
    const form = '--x\r\nContent-Disposition: form-data; name="other"\r\n\r\n';
    sending.write(`${head}Content-Length: 20000000\r\n\r\n${form}`);
    await new Promise<void>((resolve) => {
      sending.write(Buffer.alloc(20_000_000 - form.length), () => resolve());
    });
    const [answer] = (await once(sending, 'data')) as [Buffer];
    expect(String(answer)).toContain('HTTP/1.1 401');
  });

  it('is a form with files, whole', async () => {
    const post = async (type: string, body: string): Promise<number> =>
      (await fetch(service.origin, { method: 'POST', headers: { 'content-type': type }, body })).status;
    expect(await post('application/json', '{}')).toBe(415);
    expect(await post('multipart/form-data', '{}')).toBe(415);
    expect(await post('multipart/form-data; boundary=x', 'nothing')).toBe(400);
    expect(await post('multipart/form-data; boundary=x', `--x\r\nA: ${'b'.repeat(70_000)}`)).toBe(413);
    const part = (name: string, value: string): string =>
      `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
    const file = part('files"; filename="a', 'whole');
    const form = part('key', KEY) + part('repository', 'Plans') + file;
    expect(await post('multipart/form-data; boundary=x', `${form}--x`)).toBe(400);
    // Nothing has to follow the last boundary.
    expect(await post('multipart/form-data; boundary=x', `${form}--x--`)).toBe(200);
    expect(await shown('show', 'main:a')).toBe('whole');
  });

  it('is in UTF-8: names in another encoding would become equal, and replace each other', async () => {
    const part = (name: string, value: string): string =>
      `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
    const form =
      part('key', KEY) + part('repository', 'Plans') + part('files"; filename="\u00e4', 'whole') + '--x--';
    const post = async (encoding: 'latin1' | 'utf8'): Promise<[number, string]> => {
      const headers = { 'content-type': 'multipart/form-data; boundary=x' };
      const body = Buffer.from(form, encoding);
      return outcomeOf(await fetch(service.origin, { method: 'POST', headers, body }));
    };
    expect(await post('latin1')).toEqual([400, expect.stringContaining('must be UTF-8')]);
    expect((await post('utf8'))[0]).toBe(200);
    expect(await shown('show', 'main:\u00e4')).toBe('whole');
  });
});

it('the page of the form may do nothing but show and send itself, and is asked for again only when it changed', async () => {
  const response = await fetch(service.origin);
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
  const policy = response.headers.get('content-security-policy') ?? '';
  expect(policy).toMatch(/^default-src 'none'.*form-action 'self'/);
  expect(policy).not.toContain('unsafe');
  const html = await response.text();
  expect(html).not.toContain('{{');
  for (const [, file] of html.matchAll(/(?:src|href)="(page\/[^"]+)"/g))
    expect([file, (await fetch(service.origin + file)).status]).toEqual([file, 200]);
  const etag = response.headers.get('etag') ?? '';
  expect((await fetch(service.origin, { headers: { 'if-none-match': etag } })).status).toBe(304);
  for (const path of ['page/', 'page/nope.js', 'page/..%2fpage.js', 'page/%', 'uploads/repositories'])
    expect([path, (await fetch(service.origin + path)).status]).toEqual([path, 404]);
});
