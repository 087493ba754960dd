import { describe, expect, it } from 'vitest';

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

describe('a target may be named as people write it', () => {
  it.each([
    [['why', 'Accounting/feature/q3'], 'Accounting/feature%2Fq3 is fresh.'],
    [['why', 'mirror/Accounting/feature/q3/'], 'Accounting/feature%2Fq3 is fresh.'],
    [['why', 'Accounting/feature/q3/only.xlsx'], 'only.xlsx: 2 bytes'],
    [['why', 'Accounting/feature%2Fq3'], 'Accounting/feature%2Fq3 is fresh.'],
    [['verify', 'Accounting/feature/q3'], '1 target, 1 file'],
    [['diff', '--upstream', 'Accounting/feature/q3'], 'No file differs.'],
  ])('%j', async (args, text) => {
    const { command } = await mirrored();
    const { stdout, exitCode } = await command(args);
    expect(stdout).toContain(text);
    expect(exitCode).toBe(0);
  });

  it('also where nothing waits there, and nothing is held', async () => {
    const { command } = await mirrored();
    const name = 'Accounting/feature/q3';
    expect((await command(['approve', '--yes', name])).stderr).toContain(
      'No deletion is held at "Accounting/feature%2Fq3"',
    );
    expect(await command(['retry', name])).toMatchObject({ exitCode: 0 });
    expect((await command(['forget', '--yes', name])).stderr).toContain(
      'Accounting/feature%2Fq3 cannot be forgotten',
    );
  });
});

describe('a name that stands for several targets', () => {
  it('has why list the branches of a repository', async () => {
    const { command } = await mirrored();
    const { stdout, exitCode } = await command(['why', 'Accounting']);
    expect(stdout).toBe(
      '"Accounting" is a repository with 2 targets; name one of them to have it explained:\n' +
        '  Accounting/feature%2Fq3 is fresh\n  Accounting/main is fresh\n',
    );
    expect(exitCode).toBe(0);
    const { targets } = JSON.parse((await command(['why', '--json', 'Accounting'])).stdout) as {
      targets: string[];
    };
    expect(targets).toEqual(['Accounting/feature%2Fq3', 'Accounting/main']);
  });

  it.each([['verify'], ['diff'], ['retry'], ['approve', '--yes'], ['forget', '--yes']])(
    'is refused by %j, with the targets',
    async (...args) => {
      const { command } = await mirrored();
      const { stderr, exitCode } = await command([...args, 'Accounting']);
      expect(stderr).toContain('"Accounting" is a repository with 2 targets');
      expect(stderr).toContain('Accounting/feature%2Fq3, Accounting/main');
      expect(exitCode).toBe(2);
    },
  );
});
