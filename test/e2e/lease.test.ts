import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { startSynced } from '../support/mirror-commands.ts';
import { run, start } from '../support/program.ts';
import { stampsOf } from '../support/stamps.ts';
import { temporaryFolder } from '../support/temporary.ts';

const acquire = ['lease', 'acquire', '--for'] as const;

/** A mirror after its first pass. */
async function mirrored() {
  const { service, directory, variables, run: here, tree } = await startSynced({ A: { 'plan.xlsx': 'a' } });
  const leases = (): Promise<string[]> => readdir(join(directory, '.workbook-mirror/leases'));
  const edit = (): void => service.write(service.named(), 'main', 'plan.xlsx', 'b');
  return { directory, settings: variables, here, tree, leases, edit };
}

describe('lease acquire with a command', () => {
  it('ends as the command does, and releases the lease in every case', async () => {
    const { settings, leases } = await mirrored();
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
      expect(await leases()).toEqual([]);
    }
  });

  it('passes SIGTERM and SIGINT on to the command and ends with it', async () => {
    const { settings, leases } = await mirrored();
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const script = `trap 'echo got ${signal}; exit 9' ${signal.slice(3)}; echo ready; while :; do sleep 0.1; done`;
      const held = start([...acquire, '1m', '--', 'sh', '-c', script], settings);
      await held.prints(/ready/);
      held.child.kill(signal);
      const { exitCode, stdout } = await held.ended;
      expect({ exitCode, stdout }).toEqual({ exitCode: 9, stdout: `ready\ngot ${signal}\n` });
      expect(await leases()).toEqual([]);
    }
  });

  it('reports that the lease expired or was removed before the command ended', async () => {
    const { settings, directory, here } = await mirrored();
    const late = await here(...acquire, '500ms', '--', 'sleep', '1');
    expect(late.exitCode).toBe(1);
    expect(late.stderr).toContain('the lease had ended before: ');
    const failed = await here(...acquire, '500ms', '--', 'sh', '-c', 'sleep 1; exit 5');
    expect(failed.exitCode).toBe(5);
    expect(failed.stderr).toContain('the lease ended before sh');
    const untilReleased = `echo ready; while [ -d ${directory} ] && [ ! -e ${directory}-released ]; do sleep 0.05; done`;
    const taken = start([...acquire, '1m', '--', 'sh', '-c', untilReleased], settings);
    await taken.prints(/ready/);
    expect((await here('lease', 'release', '--all')).exitCode).toBe(0);
    await writeFile(`${directory}-released`, '');
    expect((await taken.ended).exitCode).toBe(1);
  });

  it('leaves a visible lease when it is killed', async () => {
    const { settings, here } = await mirrored();
    const held = start([...acquire, '10m', '--', 'sh', '-c', 'echo ready; exec sleep 1'], settings);
    await held.prints(/ready/);
    held.child.kill('SIGKILL');
    await held.ended;
    expect((await here('lease', 'list')).stdout).toMatch(/Z {2}\d+ min {2}sh of /);
    expect((await here('lease', 'release', '--all')).exitCode).toBe(0);
    expect((await here('lease', 'list')).stdout).toBe('No lease is in force.\n');
  });

  it('refuses invalid arguments', async () => {
    const { here, leases } = await mirrored();
    const empty = await temporaryFolder();
    for (const args of [
      [...acquire, '1m', '--directory', empty, '--', 'true'],
      ['lease', 'acquire', '--', 'true'],
      [...acquire, '25h', '--', 'true'],
      [...acquire, '0s'],
      [...acquire, 'soon'],
      [...acquire, '1m', '--json', '--', 'true'],
      ['lease', 'release'],
      ['lease', 'release', 'x', '--all'],
      ['lease', 'release', '../../lock'],
    ]) {
      expect({ args, exitCode: (await here(...args)).exitCode }).toEqual({ args, exitCode: 2 });
    }
    expect(await leases()).toEqual([]);
  });
});

it('a lease without a command is printed, shown by status and lease list, held by sync and verify --repair, and released', async () => {
  const { directory, here, tree, edit } = await mirrored();
  const { exitCode, stdout } = await here(...acquire, '10m', '--holder', 'nightly');
  expect(exitCode).toBe(0);
  const id = stdout.trim();
  expect((await here('status')).stdout).toContain(`the lease of nightly (${id})`);
  const { leases } = JSON.parse((await here('status', '--json')).stdout) as { leases: unknown[] };
  expect(leases).toMatchObject([{ id, holder: 'nightly' }]);
  edit();
  const before = await stampsOf(join(directory, 'mirror'));
  const held = await here('sync');
  expect(held.exitCode).toBe(1);
  expect(held.stderr).toContain('publishing waits for the lease of nightly');
  expect(held.stderr).toContain('; 1 waiting for a lease');
  expect(await stampsOf(join(directory, 'mirror'))).toEqual(before);
  await writeFile(join(tree('A/main'), 'stranger.txt'), 'x');
  const repair = await here('verify', '--repair');
  expect(repair.exitCode).toBe(1);
  expect(repair.stderr).toContain(id);
  const other = (await here(...acquire, '10m')).stdout.trim();
  expect((await here('lease', 'release', id)).exitCode).toBe(0);
  expect((await here('lease', 'release', id)).exitCode).toBe(2);
  expect(JSON.parse((await here('lease', 'list', '--json')).stdout)).toMatchObject([{ id: other }]);
  expect((await here('lease', 'release', other)).exitCode).toBe(0);
  expect((await here('verify', '--repair')).exitCode).toBe(0);
  expect((await here('sync')).exitCode).toBe(0);
  expect(await readdir(tree('A/main'))).toEqual(['plan.xlsx']);
  expect(await readFile(join(tree('A/main'), 'plan.xlsx'), 'utf8')).toBe('b');
});
