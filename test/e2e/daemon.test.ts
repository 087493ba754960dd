import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { MAIN } from '../support/built.ts';
import { startEmbedded } from '../support/embedded.ts';
import { listen } from '../support/listen.ts';
import { addressOf, cleanEnvironment, run, start, startDaemon } from '../support/program.ts';
import { textsIn } from '../support/published.ts';
import { freePort } from '../support/stores.ts';

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

  it('makes a pass at the start, one at SIGHUP, and logs JSON lines without secrets; SIGUSR2 changes the level', async () => {
    const embedded = await startEmbedded();
    const key = embedded.settings['WORKBOOK_MIRROR_SERVICE_API_KEY'];
    const hook = JSON.stringify(['/bin/sh', '-c', `echo ${key} >&2; exit 1`]);
    const daemon = await startDaemon({ ...embedded.settings, WORKBOOK_MIRROR_HOOKS_AFTER_PUBLISH: hook });
    await daemon.prints(/exit code 1: \[secret\]/);
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
    expect(stdout).not.toContain(key);
    expect(stdout).not.toContain(embedded.settings['WORKBOOK_MIRROR_SERVICE_API_TOKEN']);
  });

  it('goes on without a reader of its log', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon(embedded.settings);
    daemon.child.stdout.destroy();
    // It notices with the first lines of a pass, which it would still complete.
    for (let pass = 0; pass < 2; pass += 1) {
      await embedded.edit();
      daemon.child.kill('SIGHUP');
      await expect.poll(() => embedded.differences(), { timeout: 10_000 }).toEqual([]);
    }
    expect((await daemon.stop()).exitCode).toBe(0);
  });

  it('continues while its log cannot be written, and reports that elsewhere', async () => {
    const embedded = await startEmbedded();
    const port = await freePort();
    const daemon = spawn(process.execPath, [MAIN, 'run'], {
      env: cleanEnvironment({ ...embedded.settings, WORKBOOK_MIRROR_HTTP_LISTEN: `127.0.0.1:${port}` }),
      stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    });
    onTestFinished(() => {
      daemon.kill('SIGKILL');
    });
    let stderr = '';
    daemon.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    const ask = async (path: string): Promise<string> =>
      fetch(`http://127.0.0.1:${port}${path}`).then(
        async (answer) => `${answer.status} ${await answer.text()}`,
        String,
      );
    await expect.poll(() => ask('/readyz'), { interval: 200 }).toMatch(/^200/);
    expect(await embedded.differences()).toEqual([]);
    expect((await ask('/metrics')).includes('\nworkbook_mirror_log_failing 1\n')).toBe(true);
    expect((await ask('/api/status')).includes('log.failed')).toBe(true);
    expect(stderr.match(/The log cannot be written/g)).toHaveLength(1);
    daemon.kill('SIGTERM');
    expect(await once(daemon, 'exit')).toEqual([0, null]);
  });
});

async function someWorkbook(directory: string): Promise<string> {
  const root = join(directory, 'mirror/Accounting/main');
  const [name = 'no file is mirrored'] = Object.keys(await textsIn(root));
  return join(root, name);
}

describe('an edit of a mirrored file', () => {
  it('is repaired immediately if the settings say so, and own publishes of the daemon do not count', async () => {
    const embedded = await startEmbedded();
    const daemon = await startDaemon({ ...embedded.settings, WORKBOOK_MIRROR_DRIFT: 'repair' });
    for (let edits = 0; edits < 2; edits += 1) {
      await embedded.edit();
      daemon.child.kill('SIGHUP');
      await daemon.prints(new RegExp(`(?:"trigger":"signal"[^]*){${edits + 1}}`));
    }
    const file = await someWorkbook(embedded.directory);
    await rm(file);
    await daemon.prints(/"target\.whole"/);
    expect(await embedded.differences()).toEqual([]);
    expect(daemon.stdout()).toMatch(/"trigger":"drift"/);
    expect(daemon.stdout().match(/"target\.drifted"/g)).toHaveLength(1);
    expect((await daemon.stop()).exitCode).toBe(0);
  });

  it('made without a daemon is found when one starts', async () => {
    const embedded = await startEmbedded();
    await run(['sync'], embedded.settings);
    await rm(await someWorkbook(embedded.directory));
    const daemon = start(['run'], embedded.settings);
    await daemon.prints(/"target\.drifted"/);
    await daemon.stop();
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
