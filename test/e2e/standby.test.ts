import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { addressOf, type Running, start, startDaemon } from '../support/program.ts';

const SETTINGS = {
  WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *',
  WORKBOOK_MIRROR_STANDBY: 'true',
  WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
};

/** The events of an instance, by their names, in order. */
function eventsOf({ stdout }: Running): Map<unknown, unknown> {
  const lines = stdout().trimEnd().split('\n');
  return new Map(
    lines.map((line) => JSON.parse(line) as { event: string }).map((each) => [each.event, each]),
  );
}

it('a standby instance is healthy but not ready, can end without an effect on the other, and takes over with the current settings if that is killed', async () => {
  const embedded = await startEmbedded();
  const settings = { ...embedded.settings, ...SETTINGS };
  const first = await startDaemon(settings);
  const configFile = join(embedded.directory, '../standby.yaml');
  await writeFile(configFile, 'publish: auto\n');
  const [second, third] = [start(['run', '--config', configFile], settings), start(['run'], settings)];
  for (const each of [second, third]) await each.prints(/"standby\.began"/);
  expect((await third.stop()).exitCode).toBe(0);
  expect([...eventsOf(third).keys()]).not.toContain('daemon.started');
  expect(first.child.exitCode).toBeNull();
  const address = await addressOf(second);
  expect((await fetch(`${address}healthz`)).status).toBe(200);
  expect((await fetch(`${address}readyz`)).status).toBe(503);
  expect(await (await fetch(`${address}metrics`)).text()).toContain('\nworkbook_mirror_standby 1\n');
  const status = await fetch(`${address}api/status`);
  expect([status.status, await status.text()]).toEqual([
    503,
    expect.stringContaining('is on standby') as string,
  ]);

  // It takes even settings that otherwise need a restart.
  await writeFile(configFile, 'publish: link\nlog:\n  level: debug\n');
  second.child.kill('SIGHUP');
  await embedded.edit();
  first.child.kill('SIGKILL');
  await second.prints(/"standby\.ended"/);
  await second.prints(/"pass\.finished"/);
  expect(await embedded.differences()).toEqual([]);
  expect(await readdir(join(embedded.directory, 'trees'))).toHaveLength(1);
  expect(await (await fetch(`${await addressOf(second)}metrics`)).text()).toContain(
    '\nworkbook_mirror_standby 0\n',
  );
  expect((await fetch(`${await addressOf(second)}readyz`)).status).toBe(200);
  expect((await second.stop()).exitCode).toBe(0);
  expect(second.stdout()).toContain('"level":"debug"');
  const events = eventsOf(second);
  expect(events.get('standby.began')).toMatchObject({ code: 'directory.locked' });
  const number = expect.any(Number) as number;
  expect(events.get('standby.ended')).toMatchObject({ waitedMs: number, takeoverMs: number });
  const names = [...events.keys()];
  expect(names).not.toContain('settings.restart_needed');
  expect(names.indexOf('standby.ended')).toBeLessThan(names.indexOf('daemon.started'));
});
