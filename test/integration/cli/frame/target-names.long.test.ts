import { symlink } from 'node:fs/promises';

import { expect, it, vi } from 'vitest';

import { type MirrorCommands, startCommands } from '../../../support/mirror-commands.ts';

/** Two repositories; one has branches with slashes in their names. */
async function mirrored(): Promise<MirrorCommands> {
  const commands = await startCommands();
  const accounting = commands.service.addRepository('Accounting', { 'plan.xlsx': 'p' });
  commands.service.write(accounting, 'feature/q3', 'only.xlsx', 'q3');
  commands.service.addRepository('Sales', { 'plan.xlsx': 's' });
  expect((await commands.command(['sync'])).exitCode).toBe(0);
  return commands;
}

it('a target may be named as people write it', async () => {
  const { run } = await mirrored();
  const lines = [
    ['why mirror/Accounting/feature/q3/', 'Accounting/feature%2Fq3 is fresh.'],
    ['why Accounting/feature%2Fq3', 'Accounting/feature%2Fq3 is fresh.'],
    ['verify Accounting/feature/q3', '1 target, 1 file'],
    ['verify Acc*/*', '2 targets, 2 files'],
    ['diff --upstream Accounting/feature/q3', 'No file differs.'],
  ] as const;
  for (const [line, text] of lines) {
    const { stdout, exitCode } = await run(...line.split(' '));
    expect([line, exitCode, stdout]).toEqual([line, 0, expect.stringContaining(text)]);
  }
});

it('a name means the same target in every folder of the shell, and a path on disk the target there', async () => {
  const { run, tree } = await mirrored();
  vi.spyOn(process, 'cwd').mockReturnValue(tree('Accounting/main'));
  const name = 'Accounting/feature/q3';
  for (const command of ['why', 'log', 'plan', 'status', 'verify', 'poll'])
    expect(await run(command, name), command).toMatchObject({ exitCode: 0 });
  expect((await run('forget', '--yes', name)).stderr).toContain(
    'Accounting/feature%2Fq3 cannot be forgotten',
  );
  expect((await run('approve', '--yes', name)).stderr).toContain('No deletion is held at');
  expect((await run('diff', name)).stderr).toContain('no state of Accounting/feature%2Fq3 before');
  expect((await run('why', name)).stdout).toContain('Accounting/feature%2Fq3 is fresh.');
  expect((await run('why', `${name}/only.xlsx`)).stdout).toContain('only.xlsx: 2 bytes');
  expect((await run('why', 'plan.xlsx')).stdout).toContain('Accounting/main is fresh.');
  expect(targetsIn((await run('status', '--json', '../feature*')).stdout)).toEqual([
    'Accounting/feature%2Fq3',
  ]);
  expect(targetsIn((await run('status', '--json', 'Sales/*')).stdout)).toEqual(['Sales/main']);
  expect(targetsIn((await run('status', '--json', '.')).stdout)).toEqual(['Accounting/main']);
});

it('a path on disk means a target also if the setting directory is a symbolic link', async () => {
  const { command, directory, tree } = await mirrored();
  await symlink(directory, `${directory}-link`);
  vi.spyOn(process, 'cwd').mockReturnValue(tree('Accounting/main'));
  for (const name of ['.', tree('Accounting/main'), `${directory}-link/mirror/Accounting/main`]) {
    const { stdout } = await command(['status', '--json', name], { DIRECTORY: `${directory}-link` });
    expect(targetsIn(stdout), name).toEqual(['Accounting/main']);
  }
});

it('a repository may be named as a folder of the directory', async () => {
  const { service, run } = await startCommands();
  for (const name of ['mirror', 'history']) service.addRepository(name, { 'plan.xlsx': 'm' });
  expect(await run('sync')).toMatchObject({ exitCode: 0 });
  for (const name of ['mirror/main', 'mirror/mirror/main'])
    for (const command of ['why', 'poll', 'verify'])
      expect(await run(command, name), `${command} ${name}`).toMatchObject({ exitCode: 0 });
});

it('a name of several targets is refused, and they are named', async () => {
  const { run } = await mirrored();
  for (const line of ['why', 'verify', 'diff', 'retry', 'approve --yes', 'forget --yes']) {
    const { stderr, exitCode } = await run(...line.split(' '), 'Accounting');
    expect([line, exitCode]).toEqual([line, 2]);
    expect(stderr).toContain('"Accounting" is a repository with 2 targets');
    expect(stderr).toContain('Accounting/feature%2Fq3, Accounting/main');
  }
});

/** The targets that a command names in its JSON. */
function targetsIn(stdout: string): readonly string[] {
  const found: string[] = [];
  JSON.parse(stdout, (key, value: unknown) => {
    if (key === 'target' && typeof value === 'string') found.push(value);
    return value;
  });
  return found;
}

it('a pattern selects all matching targets, and is refused without a match, with the nearest target', async () => {
  const { run } = await mirrored();
  const q3 = 'Accounting/feature%2Fq3';
  const selections = [
    ['status Accounting/*', [q3, 'Accounting/main']],
    ['status Accounting/feature/* Sales/main', [q3, 'Sales/main']],
    ['plan */main', ['Accounting/main', 'Sales/main']],
  ] as const;
  for (const [line, targets] of selections) {
    const { stdout, exitCode } = await run(...line.split(' '), '--json');
    expect([line, exitCode, targetsIn(stdout)]).toEqual([line, 0, targets]);
  }
  for (const line of ['status', 'plan', 'verify', 'poll', 'approve --yes', 'forget --yes']) {
    const { stderr, exitCode } = await run(...line.split(' '), 'Sale/mai?');
    expect([line, exitCode]).toEqual([line, 2]);
    expect(stderr).toContain('"Sale/mai?"');
    expect(stderr).toMatch(/The nearest is Sales\/main|No deletion is held anywhere/);
  }
});

it('sync refuses names, and names the command that takes them', async () => {
  const { run } = await mirrored();
  const refused = await run('sync', 'Sales/main');
  expect(refused).toMatchObject({ exitCode: 2 });
  expect(refused.stderr).toMatch(/`workbook-mirror poll --directory \S+ 'Sales\/main'` tries/);
});

it.each(['poll', 'retry'])('%s takes a target that its pass finds', async (name) => {
  const { run, service } = await mirrored();
  service.addRepository('New', { 'plan.xlsx': 'n' });
  expect(await run(name, 'New/main')).toMatchObject({ exitCode: 0 });
});

it('an unknown name is refused, even a text that cannot be the path of a target', async () => {
  const { run } = await mirrored();
  for (const name of ['', 'Salse', 'Salse/main', '../Sales/main', `${'x'.repeat(300)}/main`]) {
    for (const line of ['poll', 'retry', 'forget --yes', 'verify --repair', 'diff', 'diff --upstream']) {
      const { stderr, exitCode } = await run(...line.split(' '), name);
      expect([line, exitCode]).toEqual([line, 2]);
      expect(stderr, line).toContain(`No target is named ${JSON.stringify(name)}`);
      if (name === 'Salse/main') expect(stderr).toContain('The nearest is Sales/main.');
    }
  }
});

it('log refuses a file, and names the command that explains it', async () => {
  const { run } = await mirrored();
  const refused = await run('log', 'Sales/main/plan.xlsx');
  expect(refused).toMatchObject({ exitCode: 2 });
  expect(refused.stderr).toMatch(
    /`workbook-mirror why --directory \S+ 'Sales\/main\/plan\.xlsx'` explains a file/,
  );
});
