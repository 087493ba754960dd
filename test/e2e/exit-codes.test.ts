import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { type FakeRepository, FakeService } from '../support/fake-service.ts';
import { type MirrorCommands, startCommands } from '../support/mirror-commands.ts';
import { addressOf, run, type Running, start } from '../support/program.ts';

/** A service with two repositories, and a directory for a daemon that makes passes only on request. */
interface Around extends MirrorCommands {
  readonly settings: Readonly<Record<string, string>>;
  readonly a: FakeRepository;
}

async function around(): Promise<Around> {
  const commands = await startCommands();
  const names = Array.from({ length: 10 }, (_, index) => [`${index}.xlsx`, `a${index}`]);
  const a = commands.service.addRepository('A', Object.fromEntries(names) as Record<string, string>);
  commands.service.addRepository('B', { 'b.xlsx': 'b' });
  const settings = {
    ...commands.variables,
    WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
    WORKBOOK_MIRROR_MAX_STALENESS: '1h',
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
    WORKBOOK_MIRROR_LOG_LEVEL: 'debug',
  };
  return { ...commands, settings, a };
}

interface Daemon extends Running {
  /** The status of `/readyz`. */
  readonly ready: () => Promise<number>;
}

async function startDaemon(settings: Readonly<Record<string, string>>): Promise<Daemon> {
  const daemon = start(['run'], settings);
  const address = await addressOf(daemon);
  return { ...daemon, ready: async () => (await fetch(new URL('readyz', address))).status };
}

async function stateOf({ settings }: Around, target: string): Promise<string | undefined> {
  const { targets } = JSON.parse((await run(['status', '--json'], settings)).stdout) as {
    targets: { target: string; state: string }[];
  };
  return targets.find((each) => each.target === target)?.state;
}

/** A state of the target `A/main`, and its cause in a fresh mirror. */
interface Row {
  readonly state: string;
  /** The exit code of `sync`, `poll --wait` and `status`; `/readyz` gives 200 if it is 0, else 503. */
  readonly exitCode: 0 | 1;
  /** Before the daemon starts. */
  readonly before?: (place: Around) => unknown;
  /** Settings for everything that follows. */
  readonly settings?: Readonly<Record<string, string>>;
  /** While the daemon runs. */
  readonly during?: (place: Around, daemon: Daemon) => unknown;
}

const ROWS: readonly Row[] = [
  { state: 'fresh', exitCode: 0 },
  {
    state: 'failing',
    exitCode: 1,
    during: ({ service, a }) => {
      service.fault = (path) => (path.includes(`${a.id}/contents`) ? { kind: 'status', status: 500 } : null);
      service.write(a, 'main', '0.xlsx', 'another version');
    },
  },
  {
    state: 'held',
    exitCode: 1,
    during: ({ service, a }) => {
      for (let index = 0; index < 8; index += 1) service.remove(a, 'main', `${index}.xlsx`);
    },
  },
  {
    // The poll repairs the changed tree: until then all report drift.
    state: 'fresh',
    exitCode: 0,
    during: async ({ directory, settings }, daemon) => {
      await writeFile(join(directory, 'mirror/A/main/0.xlsx'), 'an edit');
      await daemon.prints(/"target\.drifted"/);
      const { exitCode } = await run(['status'], settings);
      expect([exitCode, await daemon.ready()]).toEqual([1, 503]);
    },
  },
  {
    // The poll pulls the tree again: until then all report it as damaged.
    state: 'fresh',
    exitCode: 0,
    during: async ({ directory, settings }, daemon) => {
      await rm(join(directory, 'mirror/A/main'), { recursive: true });
      await daemon.prints(/"target\.drifted"/);
      const { exitCode, stdout } = await run(['status'], settings);
      expect([exitCode, await daemon.ready()]).toEqual([1, 503]);
      expect(stdout).toMatch(/^ {2}damaged; the tree is gone from the disk$/m);
    },
  },
  {
    state: 'held',
    exitCode: 1,
    settings: { WORKBOOK_MIRROR_GUARD_TARGETS: 'off' },
    before: async ({ service, a, settings }) => {
      service.removeRepository(a);
      const unguarded = { ...settings, WORKBOOK_MIRROR_GUARD_TARGETS: 'off' };
      for (let passes = 0; passes < 2; passes += 1) await run(['sync'], unguarded);
      await run(['history', 'restore', 'A/main'], settings);
    },
  },
];

const named = ROWS.map(
  (row) => [`${row.state}${row.exitCode === 0 ? ', and says 0' : ', and says 1'}`, row] as const,
);

describe('sync, poll --wait, status and /readyz agree', () => {
  it.each(named)('about a target that is %s', async (_name, row) => {
    const place = await around();
    await run(['sync'], place.settings);
    await row.before?.(place);
    const there = { ...place, settings: { ...place.settings, ...row.settings } };
    const daemon = await startDaemon(there.settings);
    await daemon.prints(/"pass\.finished"/);
    await row.during?.(there, daemon);
    const { exitCode: polled } = await run(['poll', '--wait'], there.settings);
    const { exitCode: shown } = await run(['status'], there.settings);
    const ready = await daemon.ready();
    expect({ state: await stateOf(there, 'A/main'), polled, shown, ready }).toEqual({
      state: row.state,
      polled: row.exitCode,
      shown: row.exitCode,
      ready: row.exitCode === 0 ? 200 : 503,
    });
    await daemon.stop();
    expect((await run(['sync'], there.settings)).exitCode).toBe(row.exitCode);
  });

  it('before the first finished pass', async () => {
    const { service, settings } = await around();
    service.fault = () => ({ kind: 'silence' });
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.started"/);
    expect([(await run(['status'], settings)).exitCode, await daemon.ready()]).toEqual([1, 503]);
  });

  it('about an unreachable service: the pass fails with 3, and verified targets stay fresh', async () => {
    const { service, settings } = await around();
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.finished"/);
    await service.close();
    expect((await run(['poll', '--wait'], settings)).exitCode).toBe(3);
    const status = await run(['status'], settings);
    expect([status.exitCode, await daemon.ready()]).toEqual([0, 200]);
    expect(status.stdout).toMatch(/^Last pass: .*failed: service\./m);
  });

  it('about a service that replaced the mirrored one: the pass fails, and nothing counts as fresh', async () => {
    const place = await around();
    await run(['sync'], place.settings);
    const service = await FakeService.start();
    onTestFinished(() => service.close());
    service.addRepository('Other', { 'o.xlsx': 'o' });
    const settings = { ...place.settings, WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl };
    const daemon = await startDaemon(settings);
    await daemon.prints(/"pass\.failed"/);
    const { exitCode: polled } = await run(['poll', '--wait'], settings);
    const { exitCode: shown } = await run(['status'], settings);
    expect([polled, shown, await daemon.ready()]).toEqual([1, 1, 503]);
    await daemon.stop();
    expect((await run(['sync'], settings)).exitCode).toBe(1);
  });
});
