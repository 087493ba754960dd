import { describe, expect, it } from 'vitest';

import { startCommands, startSynced } from '../../../support/mirror-commands.ts';

const mirrored = () =>
  startSynced(
    Object.fromEntries(['A', 'B', 'C', 'D', 'E', 'F'].map((name) => [name, { 'plan.xlsx': name }])),
  );

const NARROW = { REPOSITORIES_INCLUDE: 'A,B' };

describe('filters that were narrowed too much', () => {
  it('are counted by plan as by the next pass', async () => {
    const { command } = await mirrored();
    const planned = await command(['plan'], NARROW);
    expect(planned.stdout).toMatch(/^hold +unchanged, deselected .* C\/main$/m);
    expect(planned.stdout).toMatch(/^keep +unchanged .* A\/main$/m);
    expect(planned.stdout).toContain('4 targets would be held.');
    const actions = JSON.parse((await command(['plan', '--json'], NARROW)).stdout) as { isHeld: boolean }[];
    expect(actions.filter(({ isHeld }) => isHeld)).toHaveLength(4);
    const synced = await command(['sync'], NARROW);
    expect(synced.stderr).toContain('; 4 held');
    expect(synced.exitCode).toBe(1);
  });

  it('no longer hold anything once the deselection is approved', async () => {
    const { command } = await mirrored();
    await command(['sync'], NARROW);
    const approved = await command(['approve', '--all', '--yes'], NARROW);
    // Approved targets are listed, even without a question.
    for (const name of ['C', 'D', 'E', 'F'])
      expect(approved.stderr).toContain(`${name}/main: the settings no longer select it`);
    const why = await command(['why', 'C/main'], NARROW);
    expect(why.stdout).toMatch(/approved: the next pass carries it out; `workbook-mirror poll .*` makes one/);
    for (let passes = 0; passes < 2; passes += 1) {
      const synced = await command(['sync'], NARROW);
      expect(synced.stderr).not.toContain('held');
      expect(synced.exitCode).toBe(0);
    }
    const planned = await command(['plan'], NARROW);
    expect(planned.stdout).toMatch(/^leave +not-selected .* C\/main$/m);
    expect(planned.stdout).not.toContain('would be held');
    expect((await command(['status'], NARROW)).stdout).not.toContain('held');
  });

  it('are named even by a quiet command, if they select nothing', async () => {
    const { service, command } = await startCommands();
    service.addRepository('Accounting', { 'plan.xlsx': 'x' });
    const { stderr, exitCode } = await command(['sync', '-q'], { REPOSITORIES_INCLUDE: 'Acounting' });
    expect(stderr).toContain('repositories.include: "Acounting" matches nothing');
    expect(exitCode).toBe(1);
  });
});

it('the report of a failure counts attempts', async () => {
  const { command, service } = await mirrored();
  for (const repository of service.repositories) service.write(repository, 'main', 'plan.xlsx', 'changed');
  service.fault = (path) => (path.includes('/contents') ? { kind: 'status', status: 500 } : null);
  const { stderr } = await command(['sync']);
  expect(stderr).toContain('6 of 6 pulls failed');
  expect(stderr).not.toContain('nothing to pull');
  expect((await command(['status'])).stdout).toContain('6 of 6 pulls failed');
});
