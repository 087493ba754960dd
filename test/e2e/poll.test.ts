import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { chmod, lstat, mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { ownerOf } from '../../src/mirror/plan/selection.ts';
import { runHere } from '../support/in-process.ts';
import { startCommands } from '../support/mirror-commands.ts';
import { buildZip } from '../support/zip-builder.ts';
import { MAIN } from '../support/built.ts';
import { addressOf, cleanEnvironment, start, startDaemon, type Variables } from '../support/program.ts';

/** As in another container of a pod: the name of the host is the same, and the numbers of processes are others. */
const OWN_PROCESSES = ['--pid', '--fork', '--mount-proc'];
const canUnshare = spawnSync('unshare', [...OWN_PROCESSES, 'true']).status === 0;

/** An archive over every limit. */
const BAD = buildZip([{ name: '../x', data: 'x' }]);

/** A service with one repository. */
async function surroundings() {
  const commands = await startCommands();
  const { service, directory, variables } = commands;
  service.addRepository('A', { 'plan.xlsx': 'a' });
  return {
    ...commands,
    /** The settings of a daemon. */
    settings: { ...variables, WORKBOOK_MIRROR_LOG_LEVEL: 'debug' },
    /** Runs a command that knows only the directory. @param settings more of them, without the prefix */
    on: (args: readonly string[], settings?: Variables) =>
      runHere(args, { DIRECTORY: directory, ...settings }),
  };
}

type Surroundings = Awaited<ReturnType<typeof surroundings>>;

function change({ service }: Surroundings, text: string): void {
  service.write(service.named(), 'main', 'plan.xlsx', text);
}

const published = ({ directory }: Surroundings): Promise<string> =>
  readFile(join(directory, 'mirror/A/main/plan.xlsx'), 'utf8');

describe('poll', () => {
  it('waits for a pass that finds the change, and reports its result', async () => {
    const around = await surroundings();
    const daemon = await startDaemon(around.settings);
    change(around, 'b');
    const polled = await around.on(['poll', '--wait']);
    expect(polled).toMatchObject({ exitCode: 0, stdout: '' });
    expect(polled.stderr.match(/1 pulled/g)).toHaveLength(1);
    expect(await published(around)).toBe('b');
    expect(daemon.stdout()).toContain('"trigger":"poll"');
    const asJson = await around.on(['poll', '--wait', '--json']);
    const outcome = { exitCode: 0, summary: { trigger: 'poll', pulled: 0 }, failure: null };
    expect(JSON.parse(asJson.stdout)).toMatchObject({ passes: [{ shardIndex: null, outcome }] });
  });

  it('is answered by a new daemon after one was killed during the pass', async () => {
    const around = await surroundings();
    const first = await startDaemon(around.settings);
    around.service.fault = () => ({ kind: 'silence' });
    const polling = start(['poll', '--wait'], around.settings);
    await first.prints(/"event":"pass.started"[^\n]*"trigger":"poll"/);
    first.child.kill('SIGKILL');
    await first.ended;
    around.service.fault = null;
    change(around, 'b');
    await startDaemon(around.settings);
    expect((await polling.ended).exitCode).toBe(0);
    expect(await published(around)).toBe('b');
  });

  it('makes the pass itself if no daemon runs', async () => {
    const around = await surroundings();
    const codeOf = async (...args: string[]): Promise<number> => (await around.run(...args)).exitCode;
    expect([await codeOf('poll'), await codeOf('sync')]).toEqual([2, 0]);
    change(around, 'b');
    expect(await codeOf('poll')).toBe(0);
    expect(await published(around)).toBe('b');
    around.service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body: BAD } : null);
    change(around, 'c');
    expect([await codeOf('sync'), await codeOf('retry', '--all')]).toEqual([1, 1]);
    around.service.fault = null;
    expect(await codeOf('retry', '--all')).toBe(0);
    expect(await published(around)).toBe('c');
  });

  it('retries waiting targets: all, or only named ones', async () => {
    const around = await surroundings();
    around.service.addRepository('B', { 'plan.xlsx': 'b' });
    await startDaemon(around.settings);
    around.service.fault = (path) => (path.includes('/contents') ? { kind: 'body', body: BAD } : null);
    for (const repository of around.service.repositories)
      around.service.write(repository, 'main', 'plan.xlsx', 'new');
    expect((await around.on(['poll', '--wait'])).exitCode).toBe(1);
    around.service.fault = null;
    const one = await around.on(['poll', '--wait', 'B/main', '--json']);
    expect(JSON.parse(one.stdout)).toMatchObject({
      passes: [{ outcome: { exitCode: 1, summary: { pulled: 1 } } }],
    });
    const retried = await around.on(['retry', 'A/main']);
    expect(retried).toMatchObject({ exitCode: 0, stdout: 'The daemon makes a pass.\n' });
    await expect.poll(() => published(around)).toBe('new');
    expect((await around.on(['poll', '--wait'])).exitCode).toBe(0);
  });

  it.skipIf(!canUnshare)('reaches a daemon in another container, whose process is not visible', async () => {
    const around = await surroundings();
    await startDaemon(around.settings);
    change(around, 'b');
    const polling = spawn('unshare', [...OWN_PROCESSES, process.execPath, MAIN, 'poll', '--wait'], {
      env: cleanEnvironment(around.settings),
      stdio: 'ignore',
    });
    await once(polling, 'close');
    expect(polling.exitCode).toBe(0);
    expect(await published(around)).toBe('b');
  });
});

it('several instances in one directory are all polled, unless a share is named', async () => {
  const around = await surroundings();
  for (const name of ['B', 'C', 'D', 'E']) around.service.addRepository(name, { 'plan.xlsx': name });
  const startShard = (shard: string) => startDaemon({ ...around.settings, WORKBOOK_MIRROR_SHARD: shard });
  const first = await startShard('1/2');
  await startShard('2/2');
  const all = await around.on(['poll', '--wait', '--json']);
  expect(JSON.parse(all.stdout)).toMatchObject({ passes: [{ shardIndex: 1 }, { shardIndex: 2 }] });
  const synced = await around.run('sync', '--json');
  const pass = { exitCode: 0, failure: null };
  expect(JSON.parse(synced.stdout)).toMatchObject({ passes: [pass, pass] });
  const one = await around.on(['poll', '--wait'], { SHARD: '2/2' });
  expect(one).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^2: /) as string });
  // The targets of a daemon that does not run are not said to be right.
  await first.stop();
  const left = around.service.repositories.filter(({ id }) => ownerOf(id, 2) === 1);
  const unattended = left.map(({ fullName }) => `${fullName}/main`);
  expect(unattended).not.toEqual([]);
  expect((await around.run('sync')).exitCode).toBe(1);
  for (const line of [
    ['poll', '--wait'],
    ['verify', '--repair'],
  ])
    for (const names of [unattended, []]) expect((await around.run(...line, ...names)).exitCode).toBe(1);
});

describe('the control socket', () => {
  const socketIn = (directory: string): string => join(directory, '.workbook-mirror/control.sock');

  it('belongs only to the owner, or also to the group if that may write to the directory', async () => {
    const around = await surroundings();
    const first = await startDaemon(around.settings);
    const modeOf = async (): Promise<string> => {
      const stats = await lstat(socketIn(around.directory));
      expect(stats.isSocket()).toBe(true);
      return (stats.mode & 0o777).toString(8);
    };
    expect(await modeOf()).toBe('600');
    await first.stop();
    await expect(lstat(socketIn(around.directory))).rejects.toMatchObject({ code: 'ENOENT' });
    await chmod(around.directory, 0o770);
    await startDaemon(around.settings);
    expect(await modeOf()).toBe('660');
  });

  it('replaces one left by a crash, and is found in a folder with a path of any length', async () => {
    const around = await surroundings();
    let directory = around.directory;
    for (let level = 0; level < 12; level += 1) directory = join(directory, 'x'.repeat(240));
    await mkdir(directory, { recursive: true });
    const settings = { ...around.settings, WORKBOOK_MIRROR_DIRECTORY: directory };
    const first = await startDaemon(settings);
    first.child.kill('SIGKILL');
    await first.ended;
    expect((await lstat(socketIn(directory))).isSocket()).toBe(true);
    await startDaemon(settings);
    expect((await around.on(['poll', '--wait'], { DIRECTORY: directory })).exitCode).toBe(0);
    await rm(around.directory, { recursive: true, force: true });
  });

  it('answers curl, reports invalid requests, and withstands clients that hang or flood', async () => {
    const around = await surroundings();
    await startDaemon(around.settings);
    const curl = (...args: string[]): string =>
      spawnSync('curl', ['--silent', '--unix-socket', socketIn(around.directory), ...args], {
        encoding: 'utf8',
      }).stdout;
    const url = 'http://daemon/v1/poll';
    expect(JSON.parse(curl(url, '--data', '{}'))).toEqual({ result: { outcome: null } });
    expect(curl(url, '--data', '{"targets": "x"}')).toMatch(/^The request is not understood/);
    expect(curl(url, '--data', '{"aim": 1}')).toMatch(/^The request is not understood/);
    expect(curl(url, '--data', 'no JSON')).toContain('must be JSON');
    expect(curl(url)).toContain('Only POST');
    expect(curl('http://daemon/')).toContain('There is nothing here');
    const hanging = Array.from({ length: 300 }, () => connect(socketIn(around.directory)));
    for (const socket of hanging) {
      socket.on('error', () => {});
      socket.resume();
      socket.write('POST /v1/poll HTTP/1.1\r\n');
    }
    expect((await around.on(['poll', '--wait'])).exitCode).toBe(0);
    for (const socket of hanging) socket.destroy();
  });

  it('is optional: if it cannot be made, the daemon reports that, and mirrors', async () => {
    const around = await surroundings();
    await mkdir(`${socketIn(around.directory)}.new/x`, { recursive: true });
    const daemon = await startDaemon(around.settings);
    expect(daemon.stdout()).toMatch(/"event":"control.unavailable","code":"disk.failed"/);
    expect(await published(around)).toBe('a');
  });
});

it('POST /api/poll makes a pass, and only a few for many requests at once, with its own token', async () => {
  const [token, others] = ['a-token-for-polls-alone', 'a-token-for-readers'];
  const around = await surroundings();
  const daemon = await startDaemon({
    ...around.settings,
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
    WORKBOOK_MIRROR_HTTP_TOKEN: others,
    WORKBOOK_MIRROR_HTTP_POLL_TOKEN: token,
  });
  const address = await addressOf(daemon);
  change(around, 'b');
  const body = JSON.stringify({ ref: 'refs/heads/main', padding: 'x'.repeat(100_000) });
  const ask = (path: string, authorization: string, request: RequestInit = {}): Promise<Response> =>
    fetch(`${address}api/${path}`, { headers: { authorization: `Bearer ${authorization}` }, ...request });
  const poll = (own = token): Promise<Response> => ask('poll', own, { method: 'POST', body });
  const first = await poll();
  expect([first.status, await first.json()]).toEqual([202, { accepted: true }]);
  await daemon.prints(/"event":"pass.finished"[^\n]*"trigger":"poll"/);
  expect(await published(around)).toBe('b');
  const replies = await Promise.all(Array.from({ length: 60 }, () => poll()));
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([202]));
  await daemon.prints(/("event":"pass.finished"[^\n]*"trigger":"poll"[^]*){2}/);
  expect(daemon.stdout().match(/"event":"pass.started"/g)?.length).toBeLessThan(6);
  expect([(await poll(others)).status, (await ask('status', token)).status]).toEqual([401, 401]);
  expect(daemon.stdout()).not.toContain(token);
});
