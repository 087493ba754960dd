import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdir, open, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';

import type { KeyKind } from '../../../../src/lib/api/requests.ts';
import { changeKeys } from '../../../../src/server/keys/key-file.ts';
import { digestOfKey, makeKey } from '../../../../src/server/keys/keys.ts';
import { type Ended, run, start } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { MAIN } from '../../../support/built.ts';

let root = '';
let directory = '';

beforeEach(async () => {
  root = await temporaryFolder();
  directory = join(root, 'service');
});

/** Runs a `keys` command on the directory. */
function keys(...args: readonly string[]): Promise<Ended> {
  return run(['keys', ...args, '--serve-directory', directory]);
}

function create(name = 'Anna'): Promise<Ended> {
  return keys('create', '--kind', 'personal', '--name', name, '--json');
}

/** Adds a key as `keys create` does. */
async function add(kind: KeyKind): Promise<{ readonly id: string; readonly key: string }> {
  const { key, stored } = makeKey(kind, 'Anna', new Date());
  await mkdir(directory, { recursive: true });
  await changeKeys(directory, (others) => [...others, stored]);
  return { id: stored.id, key };
}

async function serve(settings: Record<string, string> = {}) {
  const serving = start(['serve', '--serve-directory', directory, '--serve-listen', '127.0.0.1:0'], settings);
  await serving.prints(/^http:\/\/\S+$/m);
  /** Gives the status of an answer. */
  const ask = async (path: string, headers: Record<string, string>) =>
    (await fetch(serving.stdout().trim() + path, { headers })).status;
  return { serving, ask };
}

describe('the commands for keys', () => {
  it('print a new key alone on standard output, and list and revoke it without its secrets', async () => {
    const made = await keys('create', '--kind', 'group', '--name', 'forge');
    expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^wbg_[\w-]{43}\n$/) as string });
    const secret = /wbs_[\w-]{43}/.exec(made.stderr)?.[0] ?? '';
    expect(secret).not.toBe('');
    expect(made.stderr).not.toContain(made.stdout.trim());
    const list = await keys('list');
    const json = await keys('list', '--json');
    const [row] = JSON.parse(json.stdout) as [{ id: string }];
    expect(row).toEqual({
      id: row.id,
      kind: 'group',
      name: 'forge',
      createdAt: expect.any(String) as string,
    });
    expect(list.stdout).toContain(row.id);
    for (const each of [list, json]) {
      expect(each).toMatchObject({ exitCode: 0, stderr: '' });
      for (const hidden of [made.stdout.trim(), secret]) expect(each.stdout).not.toContain(hidden.slice(4));
    }
    expect(await keys('revoke', row.id)).toMatchObject({ exitCode: 0, stdout: `Revoked ${row.id}.\n` });
    expect(await keys('list')).toMatchObject({ exitCode: 0, stdout: 'There is no key.\n' });
  });

  it('keep keys that are created at the same time, in one file for the owner only', async () => {
    const ended = await Promise.all(['A', 'B', 'C', 'D'].map(create));
    const made = ended.map(({ stdout }) => JSON.parse(stdout) as { id: string; key: string });
    const listed = JSON.parse((await keys('list', '--json')).stdout) as { id: string }[];
    expect(listed.map(({ id }) => id).sort()).toEqual(made.map(({ id }) => id).sort());
    const file = join(directory, 'keys.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    for (const { key } of made) expect(await readFile(file, 'utf8')).not.toContain(key.slice(4));
  });

  it('refuse wrong arguments, and name the key that is meant', async () => {
    expect(await keys('list')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('is not a directory') as string,
    });
    expect(await run(['keys', 'list'])).toMatchObject({ exitCode: 2 });
    expect(await keys('create', '--kind', 'admin', '--name', 'x')).toMatchObject({ exitCode: 2 });
    const { id, key } = await add('personal');
    const near = await keys('revoke', `${id.slice(0, -1)}x`);
    expect(near).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(id) as string });
    const itself = await keys('revoke', key);
    expect(itself).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(id) as string });
    expect(itself.stderr).not.toContain(key);
  });

  it.skipIf(!existsSync('/dev/full'))('keep no key that could not be printed', async () => {
    const command = ['keys', 'create', '--kind', 'group', '--name', 'x', '--serve-directory', directory];
    const full = await open('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [MAIN, ...command], {
      stdio: ['ignore', full.fd, 'pipe'],
      encoding: 'utf8',
    });
    await full.close();
    expect(status).toBe(1);
    expect(stderr).toContain('cannot write to standard output: ENOSPC');
    expect(stderr).not.toContain('wbs_');
    expect(await keys('list')).toMatchObject({ stdout: 'There is no key.\n' });
  });

  it('report a damaged file without repeating it, and change nothing', async () => {
    await mkdir(directory);
    const text = '{"keys": [{"signingSecret": "wbs_cut-off';
    await writeFile(join(directory, 'keys.json'), text);
    for (const args of [['list'], ['create', '--kind', 'token', '--name', 'Anna']]) {
      const ended = await keys(...args);
      expect(ended).toMatchObject({ exitCode: 2, stdout: '' });
      expect(ended.stderr).toContain('keys.json does not hold keys');
      expect(ended.stderr).not.toContain('wbs_');
    }
    expect(await readFile(join(directory, 'keys.json'), 'utf8')).toBe(text);
  });

  it.skipIf(process.getuid?.() !== 0)('change the keys as the owner of the directory for root', async () => {
    const [owner, group] = [12_345, 12_346];
    await chmod(root, 0o755);
    await mkdir(directory);
    await chown(directory, owner, group);
    await create();
    expect(await stat(join(directory, 'keys.json'))).toMatchObject({ uid: owner, gid: group });
    expect((await readdir(directory)).sort()).toEqual(['keys.json', 'keys.lock']);
  });
});

describe('a running service', () => {
  it('takes a new key immediately, and refuses it once it is revoked', async () => {
    const anna = await add('personal');
    const { serving, ask } = await serve({ WORKBOOK_MIRROR_SERVE_API_TOKEN: 'token-of-settings' });
    expect(serving.stderr()).not.toContain('No key is set');
    expect(await ask('/repos', { 'x-api-key': anna.key })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: 'token-of-settings' })).toBe(200);
    const next = await add('personal');
    for (const { key } of [anna, next]) expect(await ask('/repos', { 'x-api-key': key })).toBe(200);
    await changeKeys(directory, (all) => all.filter(({ id }) => id !== anna.id));
    expect(await ask('/repos', { 'x-api-key': anna.key })).toBe(401);
    expect(await ask('/repos', { 'x-api-key': next.key })).toBe(200);
    await writeFile(join(directory, 'keys.json'), '{');
    expect(await ask('/repos', { 'x-api-key': next.key })).toBe(500);
    await serving.prints(/keys\.json does not hold keys/);
  });

  it('makes temporary keys only where there is no personal one', async () => {
    const { serving, ask } = await serve();
    const [, apiKey = ''] = /apiKey: (\S+)/.exec(serving.stderr()) ?? [];
    const [, apiToken = ''] = /apiToken: (\S+)/.exec(serving.stderr()) ?? [];
    expect(await ask('/repos', { 'x-api-key': apiKey })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: apiToken })).toBe(200);
    await serving.stop();
    await add('token');
    const next = await serve();
    expect(next.serving.stderr()).toMatch(/apiKey: /);
    expect(next.serving.stderr()).not.toMatch(/^ {2}apiToken: /m);
    expect(await next.ask('/repos', { 'x-api-key': apiKey })).toBe(401);
  });

  it('takes the keys of version 0.1.0, each in a file of its own, also after they are changed', async () => {
    const folder = join(directory, 'keys');
    await mkdir(folder, { recursive: true });
    const before = ['personal', 'token'].map((kind, index) => {
      const key = `wb${kind[0]}_of-version-0.1.0`;
      const createdAt = `2026-01-0${index + 1}T00:00:00.000Z`;
      return { id: `${index}b9f4c9e`, key, kind, name: 'Anna', createdAt };
    });
    for (const { id, key, ...stored } of before) {
      const text = JSON.stringify({ ...stored, sha256: digestOfKey(key), signingSecret: null });
      await writeFile(join(folder, `${id}.json`), text);
    }
    const [personal = '', token = ''] = before.map(({ key }) => key);
    const { ask } = await serve();
    expect(await ask('/repos', { 'x-api-key': personal })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: token })).toBe(200);
    expect(await keys('revoke', before[0]?.id ?? '')).toMatchObject({ exitCode: 0 });
    expect(existsSync(folder)).toBe(false);
    expect(await ask('/repos', { 'x-api-key': personal })).toBe(401);
    expect(await ask('/v1/workbooks', { authorization: token })).toBe(200);
  });

  it('logs no query, and no key that somebody puts into a path', async () => {
    const { key } = await add('group');
    const { serving, ask } = await serve({ WORKBOOK_MIRROR_SERVE_API_KEY: 'key-of-settings' });
    expect(await ask(`/webhooks/push?key=${key}`, {})).toBe(405);
    expect(await ask(`/webhooks/${key}`, {})).toBe(404);
    expect(await ask(`/webhooks/${key.replace('_', '%5F')}`, {})).toBe(404);
    const address = encodeURIComponent('https://anna:pass-of-anna@example.com/x.git');
    expect(await ask(`/repos/${address}/contents`, { 'x-api-key': 'key-of-settings' })).toBe(404);
    expect(await ask('/key-of-settings', {})).toBe(404);
    await serving.prints(/GET \/api\/\[secret\] 404/);
    for (const secret of [key, 'key-of-settings', 'pass-of-anna'])
      expect(serving.stderr()).not.toContain(secret);
  });
});
