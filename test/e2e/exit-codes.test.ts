import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startFake } from '../support/started-fake.ts';
import { runHere } from '../support/in-process.ts';
import { type ShownTarget, startCommands } from '../support/mirror-commands.ts';
import { addressOf, start, type Variables, variablesOf } from '../support/program.ts';

/** A service with two repositories, and a directory for a daemon that makes passes only on request. */
async function around(more: Variables = {}) {
  const { service, directory } = await startCommands();
  const a = service.addRepository('A', { 'a.xlsx': 'a' });
  service.addRepository('B', { 'b.xlsx': 'b' });
  const settings = {
    ...service.settingsFor(directory),
    SCHEDULE: '0 0 1 1 *',
    MAX_STALENESS: '1h',
    HTTP_LISTEN: '127.0.0.1:0',
    LOG_LEVEL: 'debug',
    ...more,
  };
  return {
    service,
    directory,
    settings,
    a,
    command: (...args: string[]) => runHere(args, settings),
    /** The exit code of a command. */
    codeOf: async (...args: string[]) => (await runHere(args, settings)).exitCode,
  };
}

type Around = Awaited<ReturnType<typeof around>>;

async function startDaemon(settings: Variables) {
  const daemon = start(['run'], variablesOf(settings));
  const address = await addressOf(daemon);
  return {
    ...daemon,
    /** The status of `/readyz`. */ ready: async () => (await fetch(new URL('readyz', address))).status,
  };
}

/** Expects a state of the target `A/main`, and that all report it by the same exit code. Ends the daemon. */
async function expectAgreement(
  { command, codeOf }: Around,
  daemon: Awaited<ReturnType<typeof startDaemon>>,
  state: string,
  exitCode: 0 | 1,
): Promise<void> {
  const polled = await codeOf('poll', '--wait');
  const { stdout } = await command('status', '--json');
  const { targets } = JSON.parse(stdout) as { targets: ShownTarget[] };
  expect(targets.find(({ target }) => target === 'A/main')?.state).toBe(state);
  const found = { polled, shown: await codeOf('status'), ready: await daemon.ready() };
  expect(found).toEqual({ polled: exitCode, shown: exitCode, ready: exitCode === 0 ? 200 : 503 });
  await daemon.stop();
  expect(await codeOf('sync')).toBe(exitCode);
}

describe('sync, poll --wait, status and /readyz agree', () => {
  it('about a target that fails', async () => {
    const place = await around();
    const { service, settings, a } = place;
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    service.faultContents({ kind: 'status', status: 401 }, a);
    service.write(a, 'main', 'a.xlsx', 'another version');
    await expectAgreement(place, daemon, 'failing', 1);
  });

  it('about a target whose tree is gone from the disk, and once it is pulled again', async () => {
    const place = await around();
    const { directory, settings, command } = place;
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    await rm(join(directory, 'mirror/A/main'), { recursive: true });
    await daemon.prints(/"target\.drifted"/);
    const { exitCode, stdout } = await command('status');
    expect([exitCode, await daemon.ready()]).toEqual([1, 503]);
    expect(stdout).toMatch(/^ {2}damaged; its tree or manifest is gone or unreadable$/m);
    await expectAgreement(place, daemon, 'fresh', 0);
  });

  it('about a target that was restored and is gone from the service', async () => {
    const place = await around({ GUARD_TARGETS: 'off' });
    const { service, settings, a, codeOf } = place;
    await codeOf('sync');
    service.removeRepository(a);
    for (let passes = 0; passes < 2; passes += 1) await codeOf('sync');
    await codeOf('history', 'restore', 'A/main');
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    await expectAgreement(place, daemon, 'held', 1);
  });

  it('about an unreachable service: the pass fails with 3, and verified targets stay fresh', async () => {
    const { service, settings, command, codeOf } = await around();
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    await service.close();
    expect(await codeOf('poll', '--wait')).toBe(3);
    const status = await command('status');
    expect([status.exitCode, await daemon.ready()]).toEqual([0, 200]);
    expect(status.stdout).toMatch(/^Last pass: .*failed: service\./m);
  });

  it('about a service that replaced the mirrored one: the pass fails, and nothing counts as fresh', async () => {
    const service = await startFake();
    service.addRepository('Other', { 'o.xlsx': 'o' });
    const { settings: before, codeOf } = await around();
    await codeOf('sync');
    const settings = { ...before, SERVICE_BASE_URL: service.baseUrl };
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.failed"/);
    for (const args of [['poll', '--wait'], ['status']])
      expect(await runHere(args, settings)).toMatchObject({ exitCode: 1 });
    expect(await daemon.ready()).toBe(503);
    await daemon.stop();
    expect(await runHere(['sync'], settings)).toMatchObject({ exitCode: 1 });
  });
});
