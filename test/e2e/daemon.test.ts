import { mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run, start } from '../support/program.ts';

/** A schedule without a run during a test. */
const NEVER = { WORKBOOK_MIRROR_SCHEDULE: '0 0 1 1 *' };

describe('the daemon', () => {
  it('ends with 0 at SIGTERM although other signals come while it stops', async () => {
    const { settings } = await startEmbedded();
    const daemon = start(['run'], settings);
    await daemon.prints(/"pass.finished"/);
    for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2'] as const) daemon.child.kill(signal);
    const { exitCode } = await daemon.ended;
    expect(exitCode).toBe(0);
  });

  it('makes a pass at the start, one at SIGHUP, logs only known events as JSON lines, and ends with 0 at SIGTERM', async () => {
    const embedded = await startEmbedded();
    const daemon = start(['run'], { ...embedded.settings, ...NEVER });
    await daemon.prints(/"pass\.finished"/);
    expect(await embedded.differences()).toEqual([]);
    const edit = await embedded.writer.edit();
    daemon.child.kill('SIGHUP');
    await daemon.prints(/"trigger":"signal"[^\n]*\n/);
    expect(await embedded.differences()).toEqual([]);
    daemon.child.kill('SIGTERM');
    const { exitCode, signal, stdout } = await daemon.ended;
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
    const daemon = start(['run'], { ...embedded.settings, ...NEVER });
    await daemon.prints(/"pass\.finished"/);
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

describe('killed at any moment', () => {
  const KILLS = 12;

  it('converges to the service’s state, with every tree whole at every instant', async () => {
    const embedded = await startEmbedded();
    const torn: string[] = [];
    const over = new AbortController();
    const reader = (async () => {
      while (!over.signal.aborted) {
        await checkTrees(embedded.directory, torn);
        await sleep(5);
      }
    })();
    for (let kills = 0; kills < KILLS; kills += 1) {
      await embedded.writer.edit();
      await embedded.writer.edit();
      const mode = kills % 3 === 0 ? 'exchange' : 'auto';
      const running = start(['sync'], { ...embedded.settings, WORKBOOK_MIRROR_PUBLISH: mode });
      await sleep(150 + 40 * kills);
      running.child.kill('SIGKILL');
      await running.ended;
    }
    expect((await run(['sync'], embedded.settings)).exitCode).toBe(0);
    over.abort();
    await reader;
    expect(torn).toEqual([]);
    expect(await embedded.differences()).toEqual([]);
    expect(await readdir(join(embedded.directory, '.workbook-mirror/staging'))).toEqual([]);
  });

  /** Enters every published tree and demands that every workbook in it is a whole zip archive. */
  async function checkTrees(directory: string, torn: string[]): Promise<void> {
    const root = join(directory, 'mirror');
    const entries = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.name.endsWith('.xlsx')) continue;
      const bytes = await readFile(join(entry.parentPath, entry.name)).catch(() => null);
      const isWhole = bytes === null || bytes.lastIndexOf('PK\u0005\u0006') === bytes.length - 22;
      if (!isWhole) torn.push(join(entry.parentPath, entry.name));
    }
  }
});

describe('nothing outside the directory', () => {
  it('is written through a link in place of a tree', async () => {
    const embedded = await startEmbedded();
    const outside = join(embedded.directory, '../outside');
    await mkdir(outside);
    await mkdir(join(embedded.directory, 'mirror'), { recursive: true });
    // A mirror after its first pass.
    await mkdir(join(embedded.directory, '.workbook-mirror'));
    await symlink(outside, join(embedded.directory, 'mirror/Accounting'));
    const { exitCode, stderr } = await run(['sync'], embedded.settings);
    expect(await readdir(outside)).toEqual([]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain('mirror/Accounting is a symbolic link');
    expect(stderr).toContain('4 pulled');
  });
});
