import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import {
  chmod,
  chown,
  mkdir,
  open as openFile,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';
import { z } from 'zod';

import {
  addKey,
  keyFolderOf,
  type KeyProblem,
  readKeyFolder,
  removeKey,
} from '../../../../src/server/keys/key-folder.ts';
import { createKeyReader } from '../../../../src/server/keys/key-reader.ts';
import { makeKey, type NewKey, renderKeyFile } from '../../../../src/server/keys/stored-key.ts';
import { findKey, type KeyKind, type Keys } from '../../../../src/server/http/keys.ts';
import { type Ended, run, type Running, start } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const MAIN = join(import.meta.dirname, '../../../../src/main.ts');

async function add(folder: string, name = 'Anna', kind: KeyKind = 'personal'): Promise<NewKey> {
  const made = makeKey(kind, name, new Date());
  await addKey(folder, made.stored, Date.now());
  return made;
}

async function letsIn(keys: Keys, key: string): Promise<boolean> {
  return findKey(await keys(), key) !== null;
}

describe('the folder of the keys', () => {
  it('holds what was put into it, for nobody else to read', async () => {
    const folder = keyFolderOf(join(await temporaryFolder(), 'new', 'service'));
    expect(await readKeyFolder(folder)).toEqual({ keys: [], problems: [] });
    const made = [
      await add(folder, 'Anna'),
      await add(folder, 'forge', 'group'),
      await add(folder, 'Bo', 'token'),
    ];
    const { keys, problems } = await readKeyFolder(folder);
    expect(new Set(keys)).toEqual(new Set(made.map(({ stored }) => stored)));
    expect(problems).toEqual([]);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    const names = await readdir(folder);
    expect(names.sort()).toEqual(made.map(({ stored }) => `${stored.id}.json`).sort());
    for (const name of names) {
      expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
      const content = await readFile(join(folder, name), 'utf8');
      for (const { key } of made) expect(content).not.toContain(key);
    }
  });

  it('loses what is removed, and nothing else', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    expect(await removeKey(folder, randomUUID())).toBe(false);
    const { stored } = await add(folder);
    await writeFile(join(folder, '..', 'repositories.json'), '[]');
    for (const id of ['', '.', '..', '../repositories', `${stored.id}.json`, `./${stored.id}`, '*'])
      expect(await removeKey(folder, id)).toBe(false);
    expect((await readKeyFolder(folder)).keys).toEqual([stored]);
    expect(await removeKey(folder, stored.id)).toBe(true);
    expect(await removeKey(folder, stored.id)).toBe(false);
    expect((await readKeyFolder(folder)).keys).toEqual([]);
    expect(await readdir(join(folder, '..'))).toContain('repositories.json');
  });

  it('names what is no key, and goes on with the others', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const { stored } = await add(folder);
    const whole = renderKeyFile(stored);
    await writeFile(join(folder, 'cut.json'), whole.slice(0, 20));
    await writeFile(join(folder, 'empty.json'), '');
    await writeFile(join(folder, 'large.json'), `${whole}${' '.repeat(70_000)}`);
    await mkdir(join(folder, 'folder.json'));
    await symlink('loop.json', join(folder, 'loop.json'));
    await symlink('nowhere', join(folder, 'dangling.json'));
    await writeFile(join(folder, 'note.txt'), 'x');
    await writeFile(join(folder, 'half.json.new'), whole.slice(0, 20));
    const { keys, problems } = await readKeyFolder(folder);
    expect(keys).toEqual([stored]);
    expect(problems.filter(({ isRemovable }) => !isRemovable).map(({ id }) => id)).toEqual(['folder']);
    await expect(removeKey(folder, 'folder')).rejects.toMatchObject({ code: 'directory.unusable' });
    expect(await removeKey(folder, 'loop')).toBe(true);
    expect(problems.map(({ id, reason }) => [id, reason])).toEqual([
      ['cut', 'it is not JSON'],
      ['empty', 'it is not JSON'],
      ['folder', 'it is a folder'],
      ['large', 'it is too large for a key'],
      ['loop', 'it cannot be read (ELOOP)'],
    ]);
  });

  it('may hold links to files, as secrets are mounted', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const { stored } = makeKey('personal', 'Anna', new Date());
    await mkdir(join(folder, '..data'), { recursive: true });
    await writeFile(join(folder, '..data', 'anna.json'), renderKeyFile(stored));
    await symlink('..data/anna.json', join(folder, 'anna.json'));
    expect(await readKeyFolder(folder)).toEqual({ keys: [{ ...stored, id: 'anna' }], problems: [] });
  });

  it('lets nobody in, and says so, where it is none', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    await writeFile(folder, '');
    const { keys, problems } = await readKeyFolder(folder);
    expect(keys).toEqual([]);
    expect(problems).toEqual([
      { id: null, path: folder, reason: 'it cannot be read (ENOTDIR)', isRemovable: false },
    ]);
    await expect(add(folder)).rejects.toMatchObject({ code: 'directory.unusable' });
    await expect(removeKey(folder, 'x')).rejects.toMatchObject({ code: 'directory.unusable' });
  });

  it('is swept of what a power cut left, but not of what is being written', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    await add(folder);
    await writeFile(join(folder, 'old.json.new'), 'x');
    await utimes(join(folder, 'old.json.new'), 1, 1);
    await writeFile(join(folder, 'young.json.new'), 'x');
    await add(folder);
    const names = await readdir(folder);
    expect(names).not.toContain('old.json.new');
    expect(names).toContain('young.json.new');
    expect(names).toHaveLength(3);
  });

  it('takes keys that are made at the same time', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const made = await Promise.all(Array.from({ length: 20 }, (_, index) => add(folder, `n${index}`)));
    expect((await readKeyFolder(folder)).keys).toHaveLength(made.length);
  });
});

describe('the keys in force', () => {
  it('are those of the folder at every call, however quickly it changes', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const problems: (readonly KeyProblem[])[] = [];
    const keys = createKeyReader(folder, (each) => problems.push(each));
    expect(await keys()).toEqual([]);
    for (let round = 0; round < 50; round += 1) {
      const { key, stored } = await add(folder);
      expect(await letsIn(keys, key)).toBe(true);
      await removeKey(folder, stored.id);
      expect(await letsIn(keys, key)).toBe(false);
    }
    expect(problems).toEqual([]);
  });

  it('are read once for all who ask at the same time', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const { key } = await add(folder);
    const keys = createKeyReader(folder, () => {});
    // Right after a change no reading holds, so that each of these would read the folder.
    const lists = await Promise.all(Array.from({ length: 100 }, () => keys()));
    for (const list of lists) expect(findKey(list, key)).not.toBeNull();
    expect(new Set(lists).size).toBe(2);
  });

  it('are right also where two changes leave the same times', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    let nowMs = 0;
    const { key, stored } = await add(folder);
    const keys = createKeyReader(
      folder,
      () => {},
      () => nowMs,
    );
    const path = join(folder, `${stored.id}.json`);
    expect(await letsIn(keys, key)).toBe(true);
    nowMs += 1000;
    // What stands in a file is no part of the folder's times: this is what a second change within one tick looks like.
    await writeFile(path, '{}');
    expect(await letsIn(keys, key)).toBe(false);
    await writeFile(path, renderKeyFile(stored));
    expect(await letsIn(keys, key)).toBe(true);
  });

  it('are read again only when the folder changes, or after a while', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    let nowMs = 0;
    const { key, stored } = await add(folder);
    const keys = createKeyReader(
      folder,
      () => {},
      () => nowMs,
    );
    expect(await letsIn(keys, key)).toBe(true);
    nowMs = 2000;
    const lasting = await keys();
    nowMs = 11_999;
    expect(await keys()).toBe(lasting);
    await writeFile(join(folder, `${stored.id}.json`), '{}');
    expect(await letsIn(keys, key)).toBe(true);
    nowMs = 12_000;
    expect(await letsIn(keys, key)).toBe(false);
  });

  it('are told of once when something is no key, and again when that changes', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const told: (readonly KeyProblem[])[] = [];
    const keys = createKeyReader(folder, (problems) => told.push(problems));
    const { key } = await add(folder);
    const bad = join(folder, 'bad.json');
    await writeFile(bad, 'x');
    for (let call = 0; call < 3; call += 1) expect(await letsIn(keys, key)).toBe(true);
    expect(told.map((problems) => problems.map(({ id }) => id))).toEqual([['bad']]);
    await rm(bad);
    await keys();
    await writeFile(bad, 'x');
    await keys();
    expect(told.map((problems) => problems.length)).toEqual([1, 0, 1]);
  });

  it('end with the folder, and begin with a new one', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const keys = createKeyReader(folder, () => {});
    const { key } = await add(folder);
    expect(await letsIn(keys, key)).toBe(true);
    await rm(folder, { recursive: true });
    expect(await letsIn(keys, key)).toBe(false);
    const { key: next } = await add(folder);
    expect(await letsIn(keys, next)).toBe(true);
    expect(await letsIn(keys, key)).toBe(false);
  });

  it.skipIf(process.getuid?.() === 0)('are none where the folder may not be read', async () => {
    const folder = keyFolderOf(await temporaryFolder());
    const { key } = await add(folder);
    const told: (readonly KeyProblem[])[] = [];
    const keys = createKeyReader(folder, (problems) => told.push(problems));
    await chmod(folder, 0);
    expect(await letsIn(keys, key)).toBe(false);
    expect(told.flat().map(({ id, path }) => [id, path])).toEqual([[null, folder]]);
    await chmod(folder, 0o700);
    expect(await letsIn(keys, key)).toBe(true);
  });
});

const listSchema = z.array(
  z.strictObject({ id: z.string(), kind: z.string(), name: z.string(), createdAt: z.string() }),
);

/** The commands on a directory. */
async function keysCommand(directory: string): Promise<(...args: string[]) => Promise<Ended>> {
  await mkdir(directory, { recursive: true });
  return (...args) => run(['keys', ...args, '--serve-directory', directory]);
}

describe('the commands around keys', () => {
  it('make a key that standard output gets alone, and list it without what opens anything', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    const made = await keys('create', '--kind', 'group', '--name', 'forge');
    expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^wbg_[\w-]{43}\n$/) as string });
    const secret = /wbs_[\w-]{43}/.exec(made.stderr)?.[0] ?? '';
    expect(secret).not.toBe('');
    expect(made.stderr).not.toContain(made.stdout.trim());
    const list = await keys('list');
    const json = await keys('list', '--json');
    const [row] = listSchema.parse(JSON.parse(json.stdout));
    expect(row).toMatchObject({ kind: 'group', name: 'forge' });
    expect(list.stdout).toContain(row?.id);
    for (const { stdout, stderr, exitCode } of [list, json]) {
      expect(exitCode).toBe(0);
      expect(stderr).toBe('');
      expect(stdout).not.toContain(made.stdout.trim().slice(4));
      expect(stdout).not.toContain(secret.slice(4));
    }
    expect(await keys('revoke', row?.id ?? '')).toMatchObject({
      exitCode: 0,
      stdout: `Revoked ${row?.id}.\n`,
    });
    expect(await keys('list')).toMatchObject({ exitCode: 0, stdout: 'There is no key.\n' });
  });

  it('print everything that belongs to a new key as JSON', async () => {
    const keys = await keysCommand(join(await temporaryFolder(), 'service'));
    const group = await keys('create', '--kind', 'group', '--name', 'forge', '--json');
    expect(JSON.parse(group.stdout)).toEqual({
      id: expect.any(String) as string,
      kind: 'group',
      name: 'forge',
      createdAt: expect.any(String) as string,
      key: expect.stringMatching(/^wbg_/) as string,
      signingSecret: expect.stringMatching(/^wbs_/) as string,
    });
    const personal = await keys('create', '--kind', 'personal', '--name', 'Anna', '--json');
    expect(JSON.parse(personal.stdout)).not.toHaveProperty('signingSecret');
  });

  it('refuse what cannot be, and say what can', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    expect(await run(['keys', 'list', '--serve-directory', `${directory}2`])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('is not a directory') as string,
    });
    expect(await run(['keys', 'list'])).toMatchObject({ exitCode: 2 });
    expect(await keys('create', '--kind', 'admin', '--name', 'x')).toMatchObject({ exitCode: 2 });
    expect(await keys('create', '--kind', 'personal')).toMatchObject({ exitCode: 2 });
    expect(await keys('create', '--kind', 'personal', '--name', '<>')).toMatchObject({ exitCode: 2 });
    const made = await keys('create', '--kind', 'personal', '--name', 'Anna');
    const [row] = listSchema.parse(JSON.parse((await keys('list', '--json')).stdout));
    const id = row?.id ?? '';
    const near = await keys('revoke', `${id.slice(0, -1)}x`);
    expect(near).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(id) as string });
    // Whoever has found a key somewhere gets its id, and the key is not repeated.
    const itself = await keys('revoke', made.stdout.trim());
    expect(itself).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(id) as string });
    expect(itself.stderr).not.toContain(made.stdout.trim());
    expect(await keys('list')).toMatchObject({ stdout: expect.stringContaining(id) as string });
  });

  it.skipIf(!existsSync('/dev/full'))('keep no key that nobody has seen', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    for (const flags of [[], ['--json']]) {
      const command = ['keys', 'create', '--kind', 'group', '--name', 'x', '--serve-directory', directory];
      const full = await openFile('/dev/full', 'w');
      const { status, stderr } = spawnSync(process.execPath, [MAIN, ...command, ...flags], {
        stdio: ['ignore', full.fd, 'pipe'],
        encoding: 'utf8',
      });
      await full.close();
      expect(status).toBe(1);
      expect(stderr).toContain('cannot be printed (ENOSPC), so it was removed again');
      expect(stderr).not.toContain('wbs_');
      expect(await keys('list')).toMatchObject({ stdout: 'There is no key.\n' });
    }
  });

  it('say of a folder that it is to be removed by hand', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    await mkdir(join(keyFolderOf(directory), 'abc.json'), { recursive: true });
    expect((await keys('list')).stderr).toContain('it is a folder; it lets nobody in; remove it by hand');
    expect(await keys('revoke', 'abc')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('abc.json is a folder, not a key') as string,
    });
  });

  it('name a damaged file, and remove it', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    await keys('create', '--kind', 'personal', '--name', 'Anna');
    await writeFile(join(keyFolderOf(directory), 'bad.json'), '{"signingSecret": "wbs_cut-off');
    for (const flags of [[], ['--json'], ['--quiet']]) {
      const list = await keys('list', ...flags);
      expect(list).toMatchObject({ exitCode: 1, stdout: expect.stringContaining('Anna') as string });
      expect(list.stderr).toContain('bad.json is not a key: it is not JSON');
      expect(list.stderr).not.toContain('wbs_');
    }
    expect(await keys('revoke', 'bad')).toMatchObject({ exitCode: 0 });
    expect(await keys('list')).toMatchObject({ exitCode: 0, stderr: '' });
  });
});

describe.skipIf(process.getuid?.() !== 0)('root', () => {
  const OWNER = 12_345;

  it('makes and ends keys as the owner of the directory', async () => {
    const root = await temporaryFolder();
    await chmod(root, 0o755);
    const directory = join(root, 'service');
    const keys = await keysCommand(directory);
    await chown(directory, OWNER, OWNER + 1);
    const made = await keys('create', '--kind', 'personal', '--name', 'Anna', '--json');
    const { id } = JSON.parse(made.stdout) as { id: string };
    for (const path of [keyFolderOf(directory), join(keyFolderOf(directory), `${id}.json`)])
      expect(await stat(path)).toMatchObject({ uid: OWNER, gid: OWNER + 1 });
    expect(await keys('revoke', id)).toMatchObject({ exitCode: 0 });
  });

  it('changes nothing to which the owner leads by a link', async () => {
    const root = await temporaryFolder();
    await chmod(root, 0o755);
    const directory = join(root, 'service');
    const keys = await keysCommand(directory);
    const others = join(root, 'of-root');
    await mkdir(others);
    await writeFile(join(others, 'x.json'), '{}');
    await symlink(others, keyFolderOf(directory));
    await chown(directory, OWNER, OWNER);
    const refused = { exitCode: 2, stderr: expect.stringContaining('cannot be changed (EACCES)') as string };
    expect(await keys('create', '--kind', 'personal', '--name', 'Anna')).toMatchObject(refused);
    expect(await keys('revoke', 'x')).toMatchObject(refused);
    expect(await readdir(others)).toEqual(['x.json']);
  });
});

/** A running `serve`, and the address it answers at. */
async function serve(
  directory: string,
  settings: Record<string, string> = {},
): Promise<{
  serving: Running;
  baseUrl: string;
  ask: (path: string, headers: Record<string, string>) => Promise<number>;
}> {
  const serving = start(['serve', '--serve-directory', directory, '--serve-listen', '127.0.0.1:0'], settings);
  await serving.prints(/^http:\/\/\S+$/m);
  const baseUrl = serving.stdout().trim();
  const ask = async (path: string, headers: Record<string, string>): Promise<number> =>
    (await fetch(baseUrl + path, { headers })).status;
  return { serving, baseUrl, ask };
}

describe('a service that runs', () => {
  it('takes a key at once, and refuses it as soon as it is revoked', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    const anna = (await keys('create', '--kind', 'personal', '--name', 'Anna')).stdout.trim();
    const { serving, ask } = await serve(directory, { WORKBOOK_MIRROR_SERVE_API_TOKEN: 'token-of-settings' });
    expect(serving.stderr()).not.toContain('No key is set');
    expect(await ask('/repos', { 'x-api-key': anna })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: 'token-of-settings' })).toBe(200);
    const bo = JSON.parse((await keys('create', '--kind', 'personal', '--name', 'Bo', '--json')).stdout) as {
      id: string;
      key: string;
    };
    expect(await ask('/repos', { 'x-api-key': bo.key })).toBe(200);
    await keys('revoke', bo.id);
    expect(await ask('/repos', { 'x-api-key': bo.key })).toBe(401);
    expect(await ask('/repos', { 'x-api-key': anna })).toBe(200);
    await writeFile(join(keyFolderOf(directory), 'bad.json'), '{');
    expect(await ask('/repos', { 'x-api-key': anna })).toBe(200);
    await serving.prints(/bad\.json is not a key/);
    expect(await ask('/repos', { 'x-api-key': '' })).toBe(401);
  });

  it('has no v1 before there is a token', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    const { ask } = await serve(directory, { WORKBOOK_MIRROR_SERVE_API_KEY: 'key-of-settings' });
    expect(await ask('/repos', { 'x-api-key': 'key-of-settings' })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: 'x' })).toBe(404);
    const token = (await keys('create', '--kind', 'token', '--name', 'Anna')).stdout.trim();
    expect(await ask('/v1/workbooks', { authorization: token })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: 'x' })).toBe(401);
    expect(await ask('/repos', { 'x-api-key': token })).toBe(401);
  });

  it('makes keys for as long as it runs only where there is none', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const { serving, ask } = await serve(directory);
    const [, apiKey = ''] = /apiKey: (\S+)/.exec(serving.stderr()) ?? [];
    const [, apiToken = ''] = /apiToken: (\S+)/.exec(serving.stderr()) ?? [];
    expect(await ask('/repos', { 'x-api-key': apiKey })).toBe(200);
    expect(await ask('/v1/workbooks', { authorization: apiToken })).toBe(200);
    serving.child.kill('SIGTERM');
    await serving.ended;
    await writeFile(join(directory, 'x'), '');
    await (
      await keysCommand(directory)
    )('create', '--kind', 'token', '--name', 'Anna');
    const next = await serve(directory);
    expect(next.serving.stderr()).toMatch(/apiKey: /);
    expect(next.serving.stderr()).not.toMatch(/^ {2}apiToken: /m);
    expect(await next.ask('/repos', { 'x-api-key': apiKey })).toBe(401);
  });

  it('makes none where a key cannot be read, and lets nobody in for that', async () => {
    const directory = join(await temporaryFolder(), 'service');
    await mkdir(keyFolderOf(directory), { recursive: true });
    await writeFile(join(keyFolderOf(directory), 'bad.json'), '{}');
    const { serving, ask } = await serve(directory);
    expect(serving.stderr()).toContain('bad.json is not a key');
    expect(serving.stderr()).not.toContain('apiKey');
    for (const key of ['', 'x', 'undefined', 'null'])
      expect(await ask('/repos', { 'x-api-key': key })).toBe(401);
  });

  it('logs no secret that somebody puts into an address', async () => {
    const directory = join(await temporaryFolder(), 'service');
    const keys = await keysCommand(directory);
    const group = (await keys('create', '--kind', 'group', '--name', 'forge')).stdout.trim();
    const { serving, ask } = await serve(directory, { WORKBOOK_MIRROR_SERVE_API_KEY: 'key-of-settings' });
    expect(await ask(`/webhooks/push?key=${group}`, {})).toBe(405);
    expect(await ask(`/webhooks/${group}`, {})).toBe(404);
    expect(await ask('/repos?key-of-settings', { 'x-api-key': 'key-of-settings' })).toBe(200);
    expect(await ask('/key-of-settings', {})).toBe(404);
    await serving.prints(/GET \/api\/\[secret\] 404/);
    expect(serving.stderr()).toContain('/api/webhooks/push?key=[hidden] 405');
    expect(serving.stderr()).not.toContain(group);
    expect(serving.stderr()).not.toContain('key-of-settings');
  });
});
