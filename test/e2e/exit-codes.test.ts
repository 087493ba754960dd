import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { FakeService } from '../support/fake-service.ts';
import { runHere } from '../support/in-process.ts';
import { type ShownTarget, startCommands } from '../support/mirror-commands.ts';
import { addressOf, type Running, start, type Variables, variablesOf } from '../support/program.ts';

/** A service with two repositories, and a directory for a daemon that makes passes only on request. */
async function around(more: Variables = {}) {
  const { service, directory } = await startCommands();
  const names = Array.from({ length: 10 }, (_, index) => [`${index}.xlsx`, `a${index}`]);
  const a = service.addRepository('A', Object.fromEntries(names) as Record<string, string>);
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

interface Daemon extends Running {
  /** The status of `/readyz`. */
  readonly ready: () => Promise<number>;
}

async function startDaemon(settings: Variables): Promise<Daemon> {
  const daemon = start(['run'], variablesOf(settings));
  const address = await addressOf(daemon);
  return { ...daemon, ready: async () => (await fetch(new URL('readyz', address))).status };
}

async function stateOf({ command }: Around, target: string): Promise<string | undefined> {
  const { targets } = JSON.parse((await command('status', '--json')).stdout) as { targets: ShownTarget[] };
  return targets.find((each) => each.target === target)?.state;
}

/** A state of the target `A/main`, and its cause in a fresh mirror. */
interface Row {
  readonly state: string;
  /** The exit code of `sync`, `poll --wait` and `status`; `/readyz` gives 200 if it is 0, else 503. */
  readonly exitCode: 0 | 1;
  readonly settings?: Variables;
  /** Before the daemon starts. */
  readonly before?: (place: Around) => unknown;
  /** While the daemon runs. */
  readonly during?: (place: Around, daemon: Daemon) => unknown;
}

const ROWS: readonly Row[] = [
  { state: 'fresh', exitCode: 0 },
  {
    state: 'failing',
    exitCode: 1,
    during: ({ service, a }) => {
      service.fault = (path) => (path.includes(`${a.id}/contents`) ? { kind: 'status', status: 401 } : null);
      service.write(a, 'main', '0.xlsx', 'another version');
    },
  },
  {
    // The poll pulls the tree again: until then all report it as damaged.
    state: 'fresh',
    exitCode: 0,
    during: async ({ directory, command }, daemon) => {
      await rm(join(directory, 'mirror/A/main'), { recursive: true });
      await daemon.prints(/"target\.drifted"/);
      const { exitCode, stdout } = await command('status');
      expect([exitCode, await daemon.ready()]).toEqual([1, 503]);
      expect(stdout).toMatch(/^ {2}damaged; the tree is gone from the disk$/m);
    },
  },
  {
    state: 'held',
    exitCode: 1,
    settings: { GUARD_TARGETS: 'off' },
    before: async ({ service, a, codeOf }) => {
      service.removeRepository(a);
      for (let passes = 0; passes < 2; passes += 1) await codeOf('sync');
      await codeOf('history', 'restore', 'A/main');
    },
  },
];

const named = ROWS.map(
  (row) => [`${row.state}${row.exitCode === 0 ? ', and says 0' : ', and says 1'}`, row] as const,
);

describe('sync, poll --wait, status and /readyz agree', () => {
  it.each(named)('about a target that is %s', async (_name, row) => {
    const place = await around(row.settings);
    const { settings, codeOf } = place;
    await codeOf('sync');
    await row.before?.(place);
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    await row.during?.(place, daemon);
    const polled = await codeOf('poll', '--wait');
    const shown = await codeOf('status');
    const ready = await daemon.ready();
    expect({ state: await stateOf(place, 'A/main'), polled, shown, ready }).toEqual({
      state: row.state,
      polled: row.exitCode,
      shown: row.exitCode,
      ready: row.exitCode === 0 ? 200 : 503,
    });
    await daemon.stop();
    expect(await codeOf('sync')).toBe(row.exitCode);
  });

  it('before the first finished pass', async () => {
    const { service, settings, codeOf } = await around();
    service.fault = () => ({ kind: 'silence' });
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.started"/);
    expect([await codeOf('status'), await daemon.ready()]).toEqual([1, 503]);
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
    const service = await FakeService.start();
    onTestFinished(() => service.close());
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
