import { readdir, readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:http';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { listen } from '../support/listen.ts';
import { addressOf, run, start, startDaemon } from '../support/program.ts';

describe('the daemon', () => {
  it('ends with 0 at SIGTERM during a pass, even with an open page and other signals while it stops', async () => {
    const { settings } = await startEmbedded();
    const daemon = start(['run'], {
      ...settings,
      WORKBOOK_MIRROR_HTTP_LISTEN: '127.0.0.1:0',
      WORKBOOK_MIRROR_SERVICE_BASE_URL: `http://${await listen(createServer(() => {}))}/api`,
    });
    const stream = await fetch(new URL('/api/events', await addressOf(daemon)));
    expect(stream.status).toBe(200);
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) daemon.child.kill(signal);
    expect((await daemon.ended).exitCode).toBe(0);
    await stream.body?.cancel().catch(() => {});
  });

  it('makes a pass at the start, one at SIGHUP, and logs JSON lines, of which SIGUSR2 changes the level', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon(embedded.settings);
    expect(await embedded.differences()).toEqual([]);
    const edit = await embedded.edit();
    daemon.child.kill('SIGUSR2');
    await daemon.prints(/"log\.level_changed","level":"debug"/);
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"pass\.started","trigger":"signal"/);
    await daemon.prints(/"pass\.finished","trigger":"signal"[^\n]*\n/);
    daemon.child.kill('SIGUSR2');
    await daemon.prints(/"log\.level_changed","level":"info"/);
    expect(await embedded.differences()).toEqual([]);
    const { exitCode, signal, stdout } = await daemon.stop();
    expect({ exitCode, signal }).toEqual({ exitCode: 0, signal: null });
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { event: string; target?: string; msg: string });
    expect(lines.map((line) => line.event)).toContain('daemon.started');
    expect(lines.at(-1)?.event).toBe('daemon.stopped');
    const pulled = lines.filter((line) => line.event === 'target.pulled');
    expect(pulled.at(-1)?.target).toBe(`${edit.repository}/${encodeURIComponent(edit.branch)}`);
    expect(stdout).not.toContain(embedded.settings['WORKBOOK_MIRROR_SERVICE_API_KEY']);
    expect(stdout).not.toContain(embedded.settings['WORKBOOK_MIRROR_SERVICE_API_TOKEN']);
  });

  it('excludes a second instance, and leaves no lock when it is killed', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon(embedded.settings);
    const second = await run(['run'], embedded.settings);
    expect(second.exitCode).toBe(4);
    expect(second.stderr).toContain(`pid ${daemon.child.pid ?? 0}`);
    expect((await run(['status'], embedded.settings)).exitCode).toBe(0);
    expect((await run(['plan'], embedded.settings)).exitCode).toBe(0);
    daemon.child.kill('SIGKILL');
    await daemon.ended;
    expect((await run(['sync'], embedded.settings)).exitCode).toBe(0);
  });
});

describe('the demo', () => {
  it('does everything once, and the mirror is identical to Git', async () => {
    const { exitCode, stdout } = await run(['demo', '--once']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/readable on disk .* after the commit/);
    expect(stdout).toContain('identical to Git, byte for byte');
  });

  it('ends on Ctrl-C and leaves neither process nor folder', async () => {
    const demo = start(['demo']);
    await demo.prints(/readable on disk/);
    const folder = /into (\S+)\/mirrored\/mirror/.exec(demo.stderr())?.[1] ?? '';
    expect(folder).toContain('workbook-mirror-demo-');
    demo.child.kill('SIGINT');
    expect((await demo.ended).exitCode).toBe(0);
    await expect(stat(folder)).rejects.toThrow('ENOENT');
    const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const commands = await Promise.all(
      processes.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')),
    );
    expect(commands.filter((command) => command.includes(folder))).toEqual([]);
  });
});
