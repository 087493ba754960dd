import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { saying } from '../../../support/in-process.ts';
import { startCommands } from '../../../support/mirror-commands.ts';
import { start, variablesOf } from '../../../support/program.ts';

const NAMES = ['Kept', 'Other', 'Old'];
const WITHOUT_OLD = { REPOSITORIES_EXCLUDE: 'Old' };

/** A mirror of three repositories, after its first pass. */
async function mirrored() {
  const { service, directory, variables, command } = await startCommands();
  for (const name of NAMES) service.addRepository(name, { 'plan.xlsx': name });
  /** Runs a command on the mirror. */
  const on = (args: readonly string[], more: Record<string, string> = {}) =>
    command(args, { GUARD_TARGETS: 'off', ...more });
  expect((await on(['sync'])).exitCode).toBe(0);
  return { service, directory, variables, on };
}

type Mirrored = Awaited<ReturnType<typeof mirrored>>;

/** Every remaining trace of a target in the mirror. */
async function tracesOf(target: string, { directory, on }: Mirrored): Promise<string[]> {
  const inventory = await readFile(join(directory, 'inventory.json'), 'utf8');
  const status = await on(['status', '--json']);
  return [
    ...(existsSync(join(directory, 'mirror', target)) ? ['tree'] : []),
    ...(existsSync(join(directory, 'manifests', `${target}.json`)) ? ['manifest'] : []),
    ...(inventory.includes(`"${target}"`) ? ['inventory'] : []),
    ...(status.stdout.includes(`"${target}"`) ? ['status'] : []),
  ];
}

describe('forget', () => {
  it('moves a deselected tree to the history, from which it can be restored', async () => {
    const mirror = await mirrored();
    const { directory, on } = mirror;
    await on(['sync'], WITHOUT_OLD);
    const forgotten = await on(['forget', 'mirror/Old/main/', '--yes'], WITHOUT_OLD);
    expect(forgotten.stdout).toContain('Old/main: forgotten');
    expect(forgotten.exitCode).toBe(0);
    expect(await tracesOf('Old/main', mirror)).toEqual([]);
    expect((await on(['verify'], WITHOUT_OLD)).exitCode).toBe(0);
    expect((await on(['status'], WITHOUT_OLD)).exitCode).toBe(0);
    expect((await on(['history', 'list'])).stdout).toMatch(/^Old\/main {2}retired/m);

    expect((await on(['history', 'restore', 'Old/main'], WITHOUT_OLD)).exitCode).toBe(0);
    expect(await readFile(join(directory, 'mirror/Old/main/plan.xlsx'), 'utf8')).toBe('Old');
  });

  it.each([
    ['the tree', ['mirror/Old']],
    ['the tree and its manifest', ['mirror/Old', 'manifests/Old']],
  ])('clears the rest after a removal of %s by hand', async (_title, removed) => {
    const mirror = await mirrored();
    const { directory, on } = mirror;
    for (const path of removed) await rm(join(directory, path), { recursive: true });
    expect(await tracesOf('Old/main', mirror)).not.toEqual([]);
    const forgotten = await on(['forget', 'Old/main', '--yes', '--json'], WITHOUT_OLD);
    expect(JSON.parse(forgotten.stdout)).toMatchObject({
      isDone: true,
      targets: [{ target: 'Old/main', treePresent: false }],
    });
    expect(await tracesOf('Old/main', mirror)).toEqual([]);
    expect((await on(['verify'], WITHOUT_OLD)).exitCode).toBe(0);
  });

  it('forgets a target that the service no longer has, before its retirement is due', async () => {
    const mirror = await mirrored();
    mirror.service.removeRepository(mirror.service.named('Old'));
    await mirror.on(['sync']);
    expect((await mirror.on(['forget', 'Old/main', '--yes'])).exitCode).toBe(0);
    expect(await tracesOf('Old/main', mirror)).toEqual([]);
    expect((await mirror.on(['sync'])).exitCode).toBe(0);
  });

  it('keeps the tree of a target whose manifest is damaged', async () => {
    const mirror = await mirrored();
    await writeFile(join(mirror.directory, 'manifests/Old/main.json'), '{');
    mirror.service.removeRepository(mirror.service.named('Old'));
    expect((await mirror.on(['sync'])).stderr).toContain('the manifest of Old/main cannot be read');
    expect((await mirror.on(['status'])).stdout).toContain('! the manifest of Old/main cannot be read');
    const forgotten = await mirror.on(['forget', 'Old/main', '--yes']);
    expect(forgotten.stdout).toContain('its tree is in history/');
    expect(await tracesOf('Old/main', mirror)).toEqual([]);
    expect((await mirror.on(['history', 'list'])).stdout).toMatch(/^Old\/main {2}retired/m);
  });

  it('forgets a target whose repository is empty now, so that passes succeed again', async () => {
    const { service, on } = await mirrored();
    service.named('Old').branches.clear();
    expect((await on(['sync'])).exitCode).toBe(1);
    expect((await on(['forget', 'Old/main', '--yes'])).exitCode).toBe(0);
    expect((await on(['sync'])).exitCode).toBe(0);
    expect((await on(['history', 'list'])).stdout).toMatch(/^Old\/main {2}retired/m);
  });

  it('refuses selected and unknown targets, and asks before it continues', async () => {
    const mirror = await mirrored();
    const before = await tracesOf('Old/main', mirror);
    const cases: [readonly string[], Readonly<Record<string, string>>, RegExp][] = [
      [['Old/main', '--yes'], {}, /the settings select it.*\n.*repositories\.exclude/],
      [['Old/main', 'Kept/main', '--yes'], WITHOUT_OLD, /: Kept\/main cannot be forgotten/],
      [['Odl/main', '--yes'], WITHOUT_OLD, /The nearest is Old\/main/],
      [['Old/main'], WITHOUT_OLD, /Old\/main: .*no longer select it; 1 file[^]*--yes/],
    ];
    for (const [args, settings, message] of cases) {
      const refused = await mirror.on(['forget', ...args], settings);
      expect({ args, ...refused }).toMatchObject({ args, exitCode: 2, stdout: '' });
      expect(refused.stderr).toMatch(message);
      expect(await tracesOf('Old/main', mirror)).toEqual(before);
    }
  });

  it('leaves the work to a running daemon', async () => {
    const mirror = await mirrored();
    const { directory, variables, on } = mirror;
    const guarded = variablesOf({ ...WITHOUT_OLD, GUARD_TARGETS: '20%' });
    const daemon = start(['run'], { ...variables, ...guarded });
    // Too many targets are deselected at once, so that this one is still mirrored.
    await daemon.prints(/"deletion\.held".*"Old\/main"/);
    await daemon.prints(/"pass\.finished"/);
    const asked = await on(['forget', 'Old/main', '--yes']);
    expect(asked).toMatchObject({ exitCode: 0, stdout: saying('Old/main: forgotten') });
    expect(await tracesOf('Old/main', mirror)).toEqual([]);
    expect(existsSync(join(directory, 'history/Old/main'))).toBe(true);
    await daemon.prints(/"target\.retired".*"forgotten"/);
    expect((await on(['poll', '--wait'])).exitCode).toBe(0);

    // The settings of the daemon count, and they select it.
    expect(await on(['forget', 'Kept/main', '--yes'], { REPOSITORIES_EXCLUDE: 'Kept' })).toMatchObject({
      exitCode: 2,
      stderr: saying('cannot be forgotten'),
    });
    expect(await tracesOf('Kept/main', mirror)).toHaveLength(4);
  });
});
