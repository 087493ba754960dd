import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { dirname, join, relative } from 'node:path';

import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import { endOrphans } from '../../../../src/server/start/orphans.ts';
import { lockServiceDirectory } from '../../../../src/server/start/lock.ts';
import { initialise } from '../../../../src/server/git/bare.ts';
import { Git } from '../../../../src/server/git/git.ts';
import type { OpeningEvent } from '../../../../src/server/git/opening.ts';
import { readBranches } from '../../../../src/server/git/refs.ts';
import { openRegistry, type Registry } from '../../../../src/server/git/registry.ts';
import { start } from '../../../support/program.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const EXTERNAL_URL = 'https://git.example.com/planning/forecast.git';
const git = new Git();

let root = '';
let data = '';
let registry: Registry;

beforeEach(async () => {
  root = await temporaryFolder();
  data = join(root, 'data');
  registry = await openRegistry(data);
  onTestFinished(() => registry.close());
});

describe('the directory of a registry', () => {
  it('is not begun anew where its index was lost, and changes nothing then', async () => {
    await registry.create('Accounting');
    const [id = ''] = registry.list().map((row) => row.id);
    await mkdir(join(data, 'credentials'));
    await writeFile(join(data, 'credentials', id), 'username=u\npassword=p\n');
    await rename(join(data, 'repositories.json'), join(data, 'away'));
    await expect(openRegistry(data)).rejects.toMatchObject({
      code: 'directory.unusable',
      message: expect.stringContaining('holds 1 repository') as string,
    });
    expect(await readdir(join(data, 'credentials'))).toEqual([id]);
    expect(await readdir(join(data, 'repositories'))).toEqual([`${id}.git`]);
    await rename(join(data, 'away'), join(data, 'repositories.json'));
    expect((await openRegistry(data)).list()).toEqual(registry.list());
  });

  it('goes on with all others where something odd stands in its directory', async () => {
    const source = join(root, 'external.git');
    await initialise(git, source);
    const kept = await registry.create('A');
    const odd = await registry.create('B');
    const gone = await registry.connect({ url: EXTERNAL_URL, source });
    await registry.close();
    for (const { id } of [odd, gone]) await rm(registry.gitDirectory(id), { recursive: true });
    await writeFile(registry.gitDirectory(odd.id), 'a file');
    const [rowless, stray] = [crypto.randomUUID(), crypto.randomUUID()];
    await mkdir(join(data, 'repositories', `${rowless}.git`));
    await mkdir(join(data, 'repositories', 'notes'));
    await mkdir(join(data, 'credentials', stray), { recursive: true });
    for (const name of [kept.id, crypto.randomUUID(), 'notes.txt'])
      await writeFile(join(data, 'credentials', name), 'x');
    await writeFile(join(data, `repositories.json.${crypto.randomUUID()}.tmp`), '[');
    const told: OpeningEvent[] = [];
    const again = await openRegistry(data, { onOpening: (event) => told.push(event) });
    onTestFinished(() => again.close());
    const lost = join(data, 'repositories', `lost-${rowless}.git`);
    const summary = told.map((event) =>
      event.kind === 'unknown' ? event.path : [event.repository.full_name, event.kind],
    );
    expect(new Set(summary)).toEqual(new Set([lost, ['B', 'unusable'], [gone.full_name, 'unusable']]));
    expect((await readdir(join(data, 'credentials'))).sort()).toEqual([kept.id, stray, 'notes.txt'].sort());
    expect((await readdir(data)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect(await readFile(registry.gitDirectory(odd.id), 'utf8')).toBe('a file');
    expect(await readBranches(git, again.gitDirectory(kept.id))).toMatchObject({ defaultBranch: 'main' });
    // What is connected is had from there again.
    await expect.poll(() => again.fetches.activityOf(gone.id)).toBeNull();
    expect(await readBranches(git, again.gitDirectory(gone.id))).toMatchObject({ defaultBranch: 'main' });
  });

  it('clears away what ended programs left in the objects of a repository', async () => {
    const { id } = await registry.create('A');
    const objects = join(registry.gitDirectory(id), 'objects');
    const left = [
      'tmp_objdir-incoming-a1/pack/tmp_pack_x',
      'tmp_objdir-incoming-a1/ab/cd',
      'ab/tmp_obj_x',
      'pack/tmp_idx_x',
      'pack/.tmp-12-pack-x.pack',
      'info/commit-graphs/commit-graph-chain.lock',
    ];
    const whole = ['ab/cdef', 'info/packs', 'pack/pack-x.pack'];
    for (const path of [...left, ...whole]) {
      await mkdir(dirname(join(objects, path)), { recursive: true });
      await writeFile(join(objects, path), '');
    }
    await openRegistry(data);
    const entries = await readdir(objects, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile());
    expect(files.map(({ parentPath, name }) => relative(objects, join(parentPath, name))).sort()).toEqual(
      whole,
    );
  });
});

/** The programs that a service of a directory has started, by the mark that they bear (proc(5)). */
async function startedBy(directory: string, service: number | undefined): Promise<number[]> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const found: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name) || Number(name) === service) continue;
    const environment = await readFile(`/proc/${name}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(`WORKBOOK_MIRROR_SERVED_DIRECTORY=${dev}:${ino}`))
      found.push(Number(name));
  }
  return found;
}

describe('the directory of a service', () => {
  it('belongs to one process, also where the file that says so is removed', async () => {
    const lock = await lockServiceDirectory(data);
    onTestFinished(lock.release);
    for (const prepare of [() => Promise.resolve(), () => rm(join(data, 'serve.lock'))]) {
      await prepare();
      const other = start(['serve', '--serve-directory', data, '--serve-listen', '127.0.0.1:0']);
      expect(await other.ended).toMatchObject({
        exitCode: 4,
        stderr: expect.stringContaining('Another workbook-mirror serves') as string,
      });
    }
    await lock.release();
    await (await lockServiceDirectory(data)).release();
  });

  it.skipIf(process.platform !== 'linux')('loses what a killed service had left running', async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => {
      silent.listen(0, '127.0.0.1', resolve);
    });
    const asked = once(silent, 'connection');
    onTestFinished(() => void silent.close());
    const settings = {
      WORKBOOK_MIRROR_SERVE_DIRECTORY: data,
      WORKBOOK_MIRROR_SERVE_LISTEN: '127.0.0.1:0',
      WORKBOOK_MIRROR_SERVE_SOURCES: 'any',
      WORKBOOK_MIRROR_SERVE_API_KEY: 'key-of-settings',
    };
    const first = start(['serve'], settings);
    await first.prints(/^http:.*\/api$/m);
    const { port } = silent.address() as AddressInfo;
    const body = JSON.stringify({ url: `http://127.0.0.1:${port}/plan.git` });
    const headers = { 'x-api-key': 'key-of-settings' };
    const creating = fetch(`${first.stdout().trim()}/repos`, { method: 'POST', headers, body });
    creating.catch(() => undefined);
    await asked;
    // Stopped, so that they do not end by themselves when the service does that they connect through.
    const programs = await startedBy(data, first.child.pid);
    expect(programs.length).toBeGreaterThan(0);
    for (const pid of programs) process.kill(pid, 'SIGSTOP');
    first.child.kill('SIGKILL');
    await first.ended;
    const next = start(['serve'], settings);
    await next.prints(/Ended \d+ processes of a service that was killed/);
    await next.prints(/^http:.*\/api$/m);
  });

  it.skipIf(process.platform !== 'linux')('ends no program of another one', async () => {
    const { dev, ino } = await stat(data, { bigint: true });
    const begin = async (mark: string): Promise<ReturnType<typeof spawn>> => {
      const child = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1000)'], {
        env: { ...process.env, WORKBOOK_MIRROR_SERVED_DIRECTORY: mark },
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      await once(child.stdout, 'data');
      return child;
    };
    const own = await begin(`${dev}:${ino}`);
    const other = await begin(`${dev}:${ino}1`);
    onTestFinished(() => void delete process.env['WORKBOOK_MIRROR_SERVED_DIRECTORY']);
    expect(await endOrphans(data)).toEqual([own.pid]);
    expect(await endOrphans(data)).toEqual([]);
    expect([own.signalCode, other.signalCode]).toEqual(['SIGKILL', null]);
  });
});
