import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it, onTestFinished } from 'vitest';

import { readHistory } from '../../../src/mirror/store/history/history.ts';
import { layoutOf } from '../../../src/mirror/store/layout.ts';
import { API_KEY, API_TOKEN, FakeService } from '../../support/fake-service.ts';
import { type Running, run, start } from '../../support/program.ts';

/** A daemon that makes a pass only at SIGHUP, on a service with two repositories that it has mirrored. */
interface Daemon {
  readonly service: FakeService;
  readonly directory: string;
  readonly running: Running;
  readonly settings: Readonly<Record<string, string>>;
}

async function startDaemon(settings: Readonly<Record<string, string>> = {}): Promise<Daemon> {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  service.addRepository('Accounting', { 'a.xlsx': 'a', 'notes.txt': 'n' });
  service.addRepository('host/org/plan.git', { 'b.xlsx': 'b' });
  const directory = await mkdtemp(join(tmpdir(), 'workbook-mirror-sick-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const all = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
    WORKBOOK_MIRROR_SERVICE_API_KEY: API_KEY,
    WORKBOOK_MIRROR_SERVICE_API_TOKEN: API_TOKEN,
    WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
    WORKBOOK_MIRROR_DIRECTORY: directory,
    ...settings,
  };
  const running = start(['run'], all);
  const daemon = { service, directory, running, settings: all };
  await passesEnd(daemon, 1);
  service.takeRequests();
  return daemon;
}

function countOf({ running }: Daemon): number {
  return running.stdout().match(/"event":"pass\.(?:finished|failed)"/g)?.length ?? 0;
}

async function passesEnd(daemon: Daemon, count: number): Promise<void> {
  for (let tries = 0; countOf(daemon) < count; tries += 1) {
    if (tries > 3000) throw new Error(`no pass ended:\n${daemon.running.stdout()}`);
    await sleep(10);
  }
}

/** One pass; gives what the daemon said of it. */
async function pass(daemon: Daemon): Promise<string> {
  const saidBefore = daemon.running.stdout().length;
  const before = countOf(daemon);
  daemon.running.child.kill('SIGHUP');
  await passesEnd(daemon, before + 1);
  return daemon.running.stdout().slice(saidBefore);
}

async function trees({ directory }: Daemon): Promise<Record<string, string>> {
  const root = join(directory, 'mirror');
  const found: Record<string, string> = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile()) found[path.slice(root.length + 1)] = await readFile(path, 'utf8');
  }
  return found;
}

function wanted({ service }: Daemon): Record<string, string> {
  return Object.fromEntries(
    Object.entries(service.expectedTrees()).flatMap(([target, files]) =>
      [...files].map(([path, bytes]) => [`${target}/${path}`, String(bytes)]),
    ),
  );
}

function edit({ service }: Daemon, content: string): void {
  for (const repository of service.repositories) {
    const path = repository.name === 'Accounting' ? 'a.xlsx' : 'b.xlsx';
    service.write(repository, 'main', path, content);
  }
}

/** The service is well again: the next pass brings everything, and the daemon ends as it should. */
async function recovers(daemon: Daemon): Promise<void> {
  daemon.service.fault = null;
  expect(await pass(daemon)).toContain('"pass.finished"');
  expect(await trees(daemon)).toStrictEqual(wanted(daemon));
  expect(daemon.service.credentialFaults()).toStrictEqual([]);
  const kept = await readHistory(layoutOf(daemon.directory));
  expect(kept.filter(({ kind }) => kind === 'retired')).toStrictEqual([]);
  daemon.running.child.kill('SIGTERM');
  expect((await daemon.running.ended).exitCode).toBe(0);
}

const TIMEOUT_MS = 120_000;

describe('a daemon on a service', () => {
  it(
    'that refuses its key for all contents keeps what it has, and goes on when the key is good again',
    async () => {
      const daemon = await startDaemon({ WORKBOOK_MIRROR_CONCURRENCY: '1' });
      const before = await trees(daemon);
      edit(daemon, 'second');
      daemon.service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 401 } : null);
      for (let times = 0; times < 3; times += 1) {
        expect(await pass(daemon)).toContain('contents.forbidden');
        expect(await trees(daemon)).toStrictEqual(before);
      }
      await recovers(daemon);
    },
    TIMEOUT_MS,
  );

  it(
    'that lists no repositories for several passes keeps every tree',
    async () => {
      const daemon = await startDaemon();
      const before = await trees(daemon);
      const all = daemon.service.repositories.splice(0);
      for (let times = 0; times < 5; times += 1) {
        await pass(daemon);
        expect(await trees(daemon)).toStrictEqual(before);
      }
      daemon.service.repositories.push(...all);
      await recovers(daemon);
    },
    TIMEOUT_MS,
  );

  it(
    'that asks for a pause gets no request during it, from the daemon as from the next process',
    async () => {
      const daemon = await startDaemon();
      edit(daemon, 'second');
      // Longer than a pass waits between two tries.
      const headers = { 'retry-after': '35' };
      let untilMs = 0;
      daemon.service.fault = () => {
        untilMs = Date.now() + 35_000;
        return { kind: 'status', status: 429, headers };
      };
      await pass(daemon);
      daemon.service.fault = null;
      daemon.service.takeRequests();
      expect(await pass(daemon)).toContain('service.busy');
      daemon.running.child.kill('SIGKILL');
      await daemon.running.ended;
      const { exitCode, stderr } = await run(['sync'], daemon.settings);
      if (Date.now() < untilMs) {
        expect({ exitCode, stderr }).toMatchObject({ exitCode: 3 });
        expect(daemon.service.takeRequests()).toStrictEqual([]);
      }
      await sleep(Math.max(0, untilMs - Date.now()) + 100);
      expect((await run(['sync'], daemon.settings)).exitCode).toBe(0);
      expect(await trees(daemon)).toStrictEqual(wanted(daemon));
    },
    TIMEOUT_MS,
  );

  it(
    'that answers everything with a web page keeps every tree',
    async () => {
      const daemon = await startDaemon();
      const before = await trees(daemon);
      edit(daemon, 'second');
      daemon.service.fault = () => ({ kind: 'html' });
      for (let times = 0; times < 3; times += 1) {
        expect(await pass(daemon)).toContain('service.wrong_kind');
        expect(await trees(daemon)).toStrictEqual(before);
      }
      daemon.service.fault = (path) => (path.includes('/contents') ? { kind: 'html' } : null);
      expect(await pass(daemon)).toContain('contents.wrong_kind');
      expect(await trees(daemon)).toStrictEqual(before);
      await recovers(daemon);
    },
    TIMEOUT_MS,
  );

  it(
    'that speaks no HTTP, or vanishes within a download, keeps every tree and the daemon alive',
    async () => {
      const daemon = await startDaemon();
      const before = await trees(daemon);
      edit(daemon, 'second');
      daemon.service.fault = () => ({ kind: 'raw', bytes: Buffer.from('garbage\r\n\r\n') });
      expect(await pass(daemon)).toContain('service.unreachable');
      daemon.service.fault = (path) =>
        path.includes('/contents') ? { kind: 'cut', after: 60, reset: true } : null;
      expect(await pass(daemon)).toMatch(/contents\.interrupted|service\.unreachable/);
      expect(await trees(daemon)).toStrictEqual(before);
      await recovers(daemon);
    },
    TIMEOUT_MS,
  );
});
