import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startEmbedded } from '../support/embedded.ts';
import { run, start } from '../support/program.ts';
import { stampsOf } from '../support/stamps.ts';

const acquire = ['lease', 'acquire', '--for'] as const;

describe('lease acquire with a command', () => {
  it('ends as the command does, and releases the lease in every case', async () => {
    const { settings, directory } = await startEmbedded();
    expect((await run(['sync'], settings)).exitCode).toBe(0);
    const endings: [string[], number][] = [
      [['sh', '-c', 'echo out; echo err >&2'], 0],
      [['sh', '-c', 'exit 7'], 7],
      [['sh', '-c', 'kill -KILL $$'], 137],
      [['no-such-program-anywhere'], 127],
      [['/etc/passwd'], 126],
    ];
    for (const [command, code] of endings) {
      const { exitCode, stdout } = await run([...acquire, '1m', '--', ...command], settings);
      expect({ command, exitCode }).toEqual({ command, exitCode: code });
      expect(stdout).toBe(code === 0 ? 'out\n' : '');
      expect(await readdir(join(directory, '.workbook-mirror/leases'))).toEqual([]);
    }
  });

  it('passes SIGTERM and SIGINT on to the command and ends with it', async () => {
    const { settings, directory } = await startEmbedded();
    await run(['sync'], settings);
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const script = `trap 'echo got ${signal}; exit 9' ${signal.slice(3)}; echo ready; while :; do sleep 0.1; done`;
      const held = start([...acquire, '1m', '--', 'sh', '-c', script], settings);
      await held.prints(/ready/);
      held.child.kill(signal);
      const { exitCode, stdout } = await held.ended;
      expect({ exitCode, stdout }).toEqual({ exitCode: 9, stdout: `ready\ngot ${signal}\n` });
      expect(await readdir(join(directory, '.workbook-mirror/leases'))).toEqual([]);
    }
  });

  it('reports that the lease expired or was removed before the command ended', async () => {
    const { settings, directory } = await startEmbedded();
    await run(['sync'], settings);
    const late = await run([...acquire, '500ms', '--', 'sleep', '1'], settings);
    expect(late.exitCode).toBe(1);
    expect(late.stderr).toContain('the lease had ended before: ');
    const failed = await run([...acquire, '500ms', '--', 'sh', '-c', 'sleep 1; exit 5'], settings);
    expect(failed.exitCode).toBe(5);
    expect(failed.stderr).toContain('the lease ended before sh');
    const untilReleased = `echo ready; while [ -d ${directory} ] && [ ! -e ${directory}-released ]; do sleep 0.05; done`;
    const taken = start([...acquire, '1m', '--', 'sh', '-c', untilReleased], settings);
    await taken.prints(/ready/);
    expect((await run(['lease', 'release', '--all'], settings)).exitCode).toBe(0);
    await writeFile(`${directory}-released`, '');
    expect((await taken.ended).exitCode).toBe(1);
  });

  it('leaves a visible lease when it is killed', async () => {
    const { settings } = await startEmbedded();
    await run(['sync'], settings);
    const held = start([...acquire, '10m', '--', 'sh', '-c', 'echo ready; exec sleep 1'], settings);
    await held.prints(/ready/);
    held.child.kill('SIGKILL');
    await held.ended;
    expect((await run(['lease', 'list'], settings)).stdout).toContain('sh of ');
    expect((await run(['lease', 'release', '--all'], settings)).exitCode).toBe(0);
    expect((await run(['lease', 'list'], settings)).stdout).toBe('No lease is in force.\n');
  });

  it('refuses invalid arguments', async () => {
    const { settings, directory } = await startEmbedded();
    expect((await run([...acquire, '1m', '--', 'true'], settings)).exitCode).toBe(2);
    await run(['sync'], settings);
    for (const args of [
      ['lease', 'acquire', '--', 'true'],
      [...acquire, '25h', '--', 'true'],
      [...acquire, '0s'],
      [...acquire, 'soon'],
      [...acquire, '1m', '--json', '--', 'true'],
      ['lease', 'release'],
      ['lease', 'release', 'x', '--all'],
      ['lease', 'release', '../../lock'],
    ]) {
      expect({ args, exitCode: (await run(args, settings)).exitCode }).toEqual({ args, exitCode: 2 });
    }
    expect(await readdir(join(directory, '.workbook-mirror/leases'))).toEqual([]);
  });
});

describe('a lease without a command', () => {
  it('is printed, shown by status and lease list, held by sync and verify --repair, and released', async () => {
    const { settings, directory, edit, differences } = await startEmbedded();
    await run(['sync'], settings);
    const { exitCode, stdout } = await run([...acquire, '10m', '--holder', 'nightly'], settings);
    expect(exitCode).toBe(0);
    const id = stdout.trim();
    expect((await run(['status'], settings)).stdout).toContain(`the lease of nightly (${id})`);
    const { leases } = JSON.parse((await run(['status', '--json'], settings)).stdout) as {
      leases: unknown[];
    };
    expect(leases).toMatchObject([{ id, holder: 'nightly' }]);
    await edit();
    const before = await stampsOf(join(directory, 'mirror'));
    const held = await run(['sync'], settings);
    expect(held.exitCode).toBe(1);
    expect(held.stderr).toContain('publishing waits for the lease of nightly');
    expect(held.stderr).toContain('; 1 waiting for a lease');
    expect(await stampsOf(join(directory, 'mirror'))).toEqual(before);
    const [target = ''] = await readdir(join(directory, 'mirror'));
    await writeFile(join(directory, 'mirror', target, 'main', 'stranger.txt'), 'x');
    const repair = await run(['verify', '--repair'], settings);
    expect(repair.exitCode).toBe(1);
    expect(repair.stderr).toContain(id);
    expect((await run(['lease', 'release', id], settings)).exitCode).toBe(0);
    expect((await run(['lease', 'release', id], settings)).exitCode).toBe(2);
    expect((await run(['verify', '--repair'], settings)).exitCode).toBe(0);
    expect((await run(['sync'], settings)).exitCode).toBe(0);
    expect(await differences()).toEqual([]);
  });
});
