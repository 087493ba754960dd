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

it('an instance that stands by is healthy and not ready, ends without an effect on the other, and takes over with the current settings when that is killed', async () => {
  const embedded = await startEmbedded();
  const settings = { ...embedded.settings, ...SETTINGS };
  const first = await startDaemon(settings);
  const configFile = join(embedded.directory, '../standby.yaml');
  await writeFile(configFile, 'publish: auto\n');
  const [second, third] = [start(['run', '--config', configFile], settings), start(['run'], settings)];
  for (const each of [second, third]) await each.prints(/"standby\.began"/);
  expect((await third.stop()).exitCode).toBe(0);
  expect(linesOf(third).map(({ event }) => event)).not.toContain('daemon.started');
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
  const lines = linesOf(second);
  expect(lines.map(({ event }) => event)).not.toContain('settings.restart_needed');
  expect(lines.find(({ event }) => event === 'standby.began')?.code).toBe('directory.locked');
  const ended = lines.find(({ event }) => event === 'standby.ended');
  expect([typeof ended?.waitedMs, typeof ended?.takeoverMs]).toEqual(['number', 'number']);
  expect(lines.findIndex(({ event }) => event === 'standby.ended')).toBeLessThan(
    lines.findIndex(({ event }) => event === 'daemon.started'),
  );
});
