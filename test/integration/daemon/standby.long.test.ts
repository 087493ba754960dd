import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { loadSettings } from '../../../src/config/load.ts';
import { formatShard } from '../../../src/config/plan-settings.ts';
import type { LoadSettings } from '../../../src/daemon/settings/live-settings.ts';
import { openOrStandBy, type Standby } from '../../../src/daemon/standby.ts';
import type { DirectoryLock } from '../../../src/lib/disk/lock.ts';
import { bindNativeCalls } from '../../../src/lib/native/file-calls.ts';
import type { MirrorEvent } from '../../../src/app/events.ts';
import type { Shard } from '../../../src/mirror/plan/selection.ts';
import { prepareDirectory } from '../../../src/mirror/store/directory.ts';
import { layoutOf } from '../../../src/mirror/store/layout.ts';
import { lockForWriting } from '../../../src/mirror/store/shards.ts';
import { temporaryFolder } from '../../support/temporary.ts';

const native = bindNativeCalls();

/**
 * An instance on standby, because another one has the lock of its directory.
 * @param shards the share of the other instance and of this one, which then has no setting `standby`; null without shares
 */
async function waiting(shards: { readonly other: Shard; readonly own: Shard } | null = null) {
  const folder = await temporaryFolder();
  const directory = join(folder, 'directory');
  await mkdir(join(directory, '.workbook-mirror'), { recursive: true });
  await writeFile(join(directory, '.workbook-mirror/directory-id'), `${randomUUID()}\n`);
  const lockFile = join(directory, '.workbook-mirror/lock');
  const lock = async (shard: Shard | null): Promise<DirectoryLock> => {
    const layout = layoutOf(directory, shard ?? undefined);
    await prepareDirectory(layout, false);
    return lockForWriting(layout, shard, native);
  };
  const held = await lock(shards?.other ?? null);
  onTestFinished(() => held.release().catch(() => {}));
  const configFile = join(folder, 'config.yaml');
  const env = {
    WORKBOOK_MIRROR_SERVICE_BASE_URL: 'http://127.0.0.1:1',
    WORKBOOK_MIRROR_SERVICE_API_KEY: 'a-key-of-the-tests',
    WORKBOOK_MIRROR_DIRECTORY: directory,
    ...(shards === null
      ? { WORKBOOK_MIRROR_STANDBY: 'true' }
      : { WORKBOOK_MIRROR_SHARD: formatShard(shards.own) }),
    WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
  };
  const load: LoadSettings = () =>
    loadSettings({ flags: {}, env, configFile, needs: ['service', 'directory'] });
  const write = (text: string): Promise<void> => writeFile(configFile, text);
  await write('log:\n  level: info\n');
  const told: string[] = [];
  const events: MirrorEvent[] = [];
  const stop = new AbortController();
  const control: Standby['control'] = { onHangUp: () => Promise.resolve() };
  const notifier: Standby['notifier'] = {
    ready: () => told.push('ready'),
    reloading: () => told.push('reloading'),
    status: (text) => told.push(String(text)),
    stopping: () => told.push('stopping'),
    watchdog: () => {},
    watchdogIntervalMs: null,
  };
  const standby = {
    load,
    notifier,
    control,
    stop: stop.signal,
    emit: (event: MirrorEvent) => void events.push(event),
  };
  const tookOver = openOrStandBy(standby, load(), async ({ settings }) => {
    const taken = await lock(settings.shard ?? null);
    onTestFinished(taken.release);
    return `${settings.publish} ${settings.log.level}`;
  });
  onTestFinished(async () => {
    stop.abort();
    await tookOver.catch(() => {});
  });
  await vi.waitFor(() => expect(told).toContain('ready'), 120_000);
  return {
    directory,
    lockFile,
    /** The messages to the supervisor. */
    told,
    events,
    hangUp: () => control.onHangUp(),
    /** Writes the settings file. */
    write,
    /** Releases the lock of the other instance. */
    release: held.release,
    /** The way to publish and the log level in force when it took over. */
    tookOver,
  };
}

const namesOf = (events: readonly MirrorEvent[]): string[] =>
  events.map(({ name }) => name).filter((name) => name !== 'http.listening');

describe('on standby', () => {
  it('an instance stays so while the settings are invalid, reports that, and takes over with all current ones', async () => {
    const instance = await waiting();
    await instance.write('log:\n  level: loud\n');
    await instance.release();
    await vi.waitFor(() => expect(instance.told.at(-1)).toMatch(/^on standby: .*log\.level/), 120_000);
    expect(namesOf(instance.events)).toEqual(['standby.began', 'settings.refused']);
    await instance.write('publish: link\nlog:\n  level: debug\n');
    expect(await instance.tookOver).toBe('link debug');
    expect(namesOf(instance.events)).toEqual(['standby.began', 'settings.refused', 'standby.ended']);
  });

  it('an instance stays so while the program of a hook is missing', async () => {
    const instance = await waiting();
    await instance.write('hooks:\n  afterPublish: [/no/such/program]\n');
    await instance.release();
    await vi.waitFor(
      () => expect(instance.told.at(-1)).toMatch(/^on standby: hooks\.afterPublish: /),
      120_000,
    );
    expect(namesOf(instance.events)).toEqual(['standby.began', 'settings.refused']);
    await instance.write('publish: link\n');
    expect(await instance.tookOver).toBe('link info');
  });

  it('reports to systemd that it reloads, and is ready again, at SIGHUP', async () => {
    const instance = await waiting();
    instance.told.length = 0;
    await instance.hangUp();
    expect(instance.told).toEqual(['reloading', 'ready']);
  });

  it('names the present instance that it waits for', async () => {
    const instance = await waiting();
    expect(instance.told.at(-1)).toContain(`pid ${process.pid} on `);
    await writeFile(instance.lockFile, 'pid 7 on elsewhere since 2025-01-01T00:00:00.000Z\n');
    await vi.waitFor(() => expect(instance.told.at(-1)).toContain('pid 7 on elsewhere'), 120_000);
    const listening = instance.events.find((event) => event.name === 'http.listening');
    const ready = await fetch(`${listening?.address ?? ''}readyz`);
    expect(await ready.json()).toMatchObject({
      standby: true,
      reason: expect.stringContaining('pid 7 on elsewhere') as string,
    });
  });

  it('accepts no other directory, and takes over when its own is back, on any device', async () => {
    const instance = await waiting();
    const internal = join(instance.directory, '.workbook-mirror');
    const id = await readFile(join(internal, 'directory-id'), 'utf8');
    await rename(instance.directory, `${instance.directory}-away`);
    await instance.release();
    await vi.waitFor(() => expect(instance.told.at(-1)).toContain('is not the directory that was'), 120_000);
    await mkdir(internal, { recursive: true });
    await writeFile(join(internal, 'directory-id'), id);
    expect(await instance.tookOver).toBe('auto info');
  });

  it('waits without the setting while shards of another count work there', async () => {
    const instance = await waiting({ other: { index: 1, count: 3 }, own: { index: 1, count: 5 } });
    const message = 'Instances work in this directory as shards of 3, and this one is shard 1/5.';
    expect(instance.told.at(-1)).toBe(`on standby: ${message}`);
    expect(instance.events[0]).toMatchObject({ name: 'standby.began', code: 'directory.locked', message });
    await instance.release();
    expect(await instance.tookOver).toBe('auto info');
  });
});
