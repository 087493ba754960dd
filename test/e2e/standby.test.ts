import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { addressOf, type Running, start, startDaemon } from '../support/program.ts';

const SETTINGS = {
  WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
  WORKBOOK_MIRROR_STANDBY: 'true',
  WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
};

interface Line {
  readonly event: string;
  readonly code?: string;
  readonly waitedMs?: number;
  readonly takeoverMs?: number;
}

function linesOf({ stdout }: Running): Line[] {
  return stdout()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

/** An instance that has mirrored everything, for others to stand by. */
async function startFirst() {
  const embedded = await startEmbedded();
  const settings = { ...embedded.settings, ...SETTINGS };
  return { embedded, settings, first: await startDaemon(settings) };
}

describe('an instance that stands by', () => {
  it('is healthy and not ready, and takes over when the other one is killed', async () => {
    const { embedded, settings, first } = await startFirst();
    const second = start(['run'], settings);
    await second.prints(/"standby\.began"/);
    const address = await addressOf(second);
    expect((await fetch(`${address}healthz`)).status).toBe(200);
    const ready = await fetch(`${address}readyz`);
    expect([ready.status, await ready.json()]).toEqual([
      503,
      {
        ready: false,
        standby: true,
        reason: expect.stringContaining(`pid ${first.child.pid ?? 0}`) as string,
      },
    ]);
    expect(await (await fetch(`${address}metrics`)).text()).toContain('\nworkbook_mirror_standby 1\n');
    const status = await fetch(`${address}api/status`);
    expect([status.status, await status.text()]).toEqual([
      503,
      expect.stringContaining('is on standby') as string,
    ]);

    await embedded.edit();
    first.child.kill('SIGKILL');
    await second.prints(/"standby\.ended"/);
    await second.prints(/"pass\.finished"/);
    expect(await embedded.differences()).toEqual([]);
    expect(await (await fetch(`${await addressOf(second)}metrics`)).text()).toContain(
      '\nworkbook_mirror_standby 0\n',
    );
    expect((await fetch(`${await addressOf(second)}readyz`)).status).toBe(200);
    expect((await second.stop()).exitCode).toBe(0);
    const lines = linesOf(second);
    expect(lines.find(({ event }) => event === 'standby.began')?.code).toBe('directory.locked');
    const ended = lines.find(({ event }) => event === 'standby.ended');
    expect([typeof ended?.waitedMs, typeof ended?.takeoverMs]).toEqual(['number', 'number']);
    expect(lines.findIndex(({ event }) => event === 'standby.ended')).toBeLessThan(
      lines.findIndex(({ event }) => event === 'daemon.started'),
    );
  });

  it('takes over with the current settings, even those that need a restart', async () => {
    const { embedded, settings, first } = await startFirst();
    const configFile = join(embedded.directory, '../standby.yaml');
    await writeFile(configFile, 'publish: auto\n');
    const second = start(['run', '--config', configFile], settings);
    await second.prints(/"standby\.began"/);
    await writeFile(configFile, 'publish: link\nlog:\n  level: debug\n');
    second.child.kill('SIGHUP');
    await embedded.edit();
    first.child.kill('SIGKILL');
    await second.prints(/"pass\.finished"/);
    expect(await embedded.differences()).toEqual([]);
    expect(await readdir(join(embedded.directory, 'trees'))).toHaveLength(1);
    const events = linesOf(second).map(({ event }) => event);
    expect(events).not.toContain('settings.restart_needed');
    expect(second.stdout()).toContain('"level":"debug"');
  });

  it('ends with 0 when it is stopped, and does not affect the other one', async () => {
    const { settings, first } = await startFirst();
    const second = start(['run'], settings);
    await second.prints(/"standby\.began"/);
    expect((await second.stop()).exitCode).toBe(0);
    expect(linesOf(second).map(({ event }) => event)).not.toContain('daemon.started');
    expect(first.child.exitCode).toBeNull();
  });
});
