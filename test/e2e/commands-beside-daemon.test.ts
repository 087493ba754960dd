import { once } from 'node:events';
import { appendFile, mkdir, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { startCommands } from '../support/mirror-commands.ts';
import { runHere, saying } from '../support/in-process.ts';
import { run, start, startDaemon, type Variables } from '../support/program.ts';
import { temporaryFolder } from '../support/temporary.ts';

const SHEETS = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`${index}.xlsx`, `a${index}`]));

/** A daemon that makes passes only on request; only it has the keys of the service. */
async function besideDaemon(more: Variables = {}) {
  const { service, directory, variables } = await startCommands();
  service.addRepository('A', SHEETS);
  service.addRepository('B', { 'b.xlsx': 'b' });
  const daemon = await startDaemon({ ...variables, ...more });
  /** Runs a command that knows only the directory. */
  const on = (...args: string[]) => runHere(args, { DIRECTORY: directory });
  return { service, directory, daemon, on };
}

describe('a command next to a daemon, without keys', () => {
  it('lists, compares and plans', async () => {
    const { service, on } = await besideDaemon();
    const a = service.named();
    service.write(a, 'main', '0.xlsx', 'another version');
    expect(await on('plan')).toMatchObject({ exitCode: 0, stdout: saying('1 target would be pulled') });
    expect(await on('diff', 'A/main', '--upstream')).toMatchObject({ exitCode: 1, stdout: saying('0.xlsx') });
    expect(await on('repos', 'list')).toMatchObject({ exitCode: 0, stdout: saying('2 repositories.') });
    expect(await on('workbooks', 'list')).toMatchObject({ exitCode: 0, stdout: saying('11 workbooks.') });
    const probed = await on('probe', '--json', '--max-requests', '10');
    expect(JSON.parse(probed.stdout)).toHaveProperty('program');
    expect(await on('plan', '--json')).toMatchObject({ stdout: saying('"versions-changed"') });
  });

  it('lets the daemon make the pass of sync, and says so', async () => {
    const { service, directory, on } = await besideDaemon();
    const a = service.named();
    service.write(a, 'main', '0.xlsx', 'another version');
    const synced = await on('sync', '--json');
    expect(synced).toMatchObject({ exitCode: 0, stderr: saying('A daemon runs here, so it makes the pass') });
    expect(JSON.parse(synced.stdout)).toMatchObject({ summary: { pulled: 1 } });
    expect(await readFile(join(directory, 'mirror/A/main/0.xlsx'), 'utf8')).toBe('another version');
    expect(await on('sync', '--quiet')).toMatchObject({ exitCode: 0, stdout: '', stderr: '' });
    service.fault = () => ({ kind: 'status', status: 401 });
    expect(await on('sync')).toMatchObject({ exitCode: 3, stderr: saying('refuse') });
    const flagged = await on('sync', '--content', 'all');
    expect(flagged.stderr).toContain('the flags for content have no effect');
  });

  it('repairs a tree, from the disk or by a pass', async () => {
    const { directory, on } = await besideDaemon({ WORKBOOK_MIRROR_DRIFT: 'off' });
    expect(await on('verify', '--repair')).toMatchObject({ exitCode: 0, stdout: saying('all as published') });
    await appendFile(join(directory, 'mirror/A/main/0.xlsx'), '!');
    expect((await on('verify')).exitCode).toBe(1);
    expect(await on('verify', '--repair')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(
        /^Before the repair:\nA\/main differs [^]* not as published\.\n1 target pulled: A\/main\n$/,
      ) as unknown,
    });
    expect((await on('verify')).exitCode).toBe(0);
    await rm(join(directory, 'mirror/B'), { recursive: true });
    expect((await on('verify', '--repair', 'B/main')).exitCode).toBe(0);
    expect(await readFile(join(directory, 'mirror/B/main/b.xlsx'), 'utf8')).toBe('b');
  });

  it('approves a held deletion', async () => {
    const { service, on } = await besideDaemon();
    const a = service.named();
    for (let index = 0; index < 8; index += 1) service.remove(a, 'main', `${index}.xlsx`);
    expect((await on('poll', '--wait')).exitCode).toBe(1);
    expect(await on('approve', 'B/main')).toMatchObject({
      exitCode: 2,
      stderr: saying('No deletion is held'),
    });
    // The command repeats its own flags, not those of the daemon.
    expect((await on('forget', 'nix', '--state', 'sqlite')).stderr).toContain('--state sqlite` lists');
    expect(await on('approve', 'A/main', '--yes')).toMatchObject({
      exitCode: 0,
      stderr: saying('would delete 8 of its 10 files'),
    });
    expect((await on('poll', '--wait')).exitCode).toBe(0);
    expect((await on('log', 'A/main')).stdout).toMatch(/approved by \S.*, as the command says, at 20/);
    expect(await on('approve', '--all')).toMatchObject({ exitCode: 0, stdout: saying('nothing to approve') });
  });

  it('makes a repository, unless it has a password, which no socket carries', async () => {
    const { service, on } = await besideDaemon();
    const made = { id: 'r9', name: 'New', full_name: 'New', url: null };
    service.fault = () => ({ kind: 'body', body: Buffer.from(JSON.stringify(made)) });
    const asked = await on('repos', 'create', '--name', 'New');
    expect(asked).toMatchObject({ exitCode: 0, stdout: saying('r9') });
    const url = 'https://git.example.com/a/b.git';
    const withPassword = ['--url', url, '--username', 'me', '--password-file', '/dev/null'];
    expect((await on('repos', 'create', ...withPassword)).exitCode).toBe(2);
  });

  it('shows the work of the daemon in status', async () => {
    const { service, on } = await besideDaemon();
    expect(await on('status')).toMatchObject({ exitCode: 0, stdout: saying('Next pass: ') });
    service.fault = () => ({ kind: 'silence' });
    expect((await on('poll')).exitCode).toBe(0);
    await expect.poll(async () => (await on('status')).stdout).toContain('Current pass: ');
  });

  it('works itself if its flags differ from the settings of the daemon', async () => {
    const { service, on } = await besideDaemon();
    const flags = ['--service-base-url', service.baseUrl, '--repositories-exclude', 'A'];
    expect(await on('plan', ...flags)).toMatchObject({ exitCode: 2, stderr: saying('service.apiKey') });
  });

  it('can be interrupted while the work continues', async () => {
    const { service, directory, daemon, on } = await besideDaemon({ WORKBOOK_MIRROR_LOG_LEVEL: 'debug' });
    service.fault = () => ({ kind: 'silence' });
    const waiting = start(['poll', '--wait'], { WORKBOOK_MIRROR_DIRECTORY: directory });
    await daemon.prints(/"event":"pass.started"[^\n]*"trigger":"poll"/);
    waiting.child.kill('SIGINT');
    expect(await waiting.ended).toMatchObject({
      exitCode: 1,
      stderr: saying('The daemon continues the work'),
    });
    expect(await on('status')).toMatchObject({ stdout: saying('Current pass: ') });
  });
});

it('a command next to a daemon that hangs ends, and says so', async () => {
  const directory = await temporaryFolder();
  await mkdir(join(directory, '.workbook-mirror'));
  const server = createServer((connection) => connection.on('error', () => {}).resume());
  onTestFinished(() => void server.close());
  server.listen(join(directory, '.workbook-mirror/control.sock'));
  await once(server, 'listening');
  const ended = await run(['approve', '--all'], { WORKBOOK_MIRROR_DIRECTORY: directory });
  expect(ended).toMatchObject({ exitCode: 2, stderr: saying('it does not answer') });
});

it('a command next to a daemon that is busy with others waits for them, while status is answered', async () => {
  const { service, directory, on } = await besideDaemon();
  const { promise: released, resolve } = Promise.withResolvers<void>();
  service.fault = () => ({ kind: 'wait', after: 0, released });
  const socketPath = join(directory, '.workbook-mirror/control.sock');
  for (let count = 0; count < 8; count += 1) {
    const other = request({ socketPath, path: '/v1/repos', method: 'POST', agent: false });
    other.on('error', () => {}).end('{}');
    await once(other, 'response');
  }
  const waiting = start(['plan'], { WORKBOOK_MIRROR_DIRECTORY: directory });
  expect(await on('status')).toMatchObject({ exitCode: 0, stdout: saying('Next pass: ') });
  resolve();
  expect(await waiting.ended).toMatchObject({ exitCode: 0, stdout: saying('Nothing would be pulled.') });
});
