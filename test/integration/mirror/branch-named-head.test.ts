import { describe, expect, it } from 'vitest';

import { startCommands } from '../../support/mirror-commands.ts';

describe('a branch that the service calls HEAD', () => {
  it('is mirrored next to the others, under its own name', async () => {
    const commands = await startCommands();
    const { service } = commands;
    const repository = service.addRepository('org.example/plan.git', { 'a.xlsx': 'of main' });
    service.write(repository, 'HEAD', 'a.xlsx', 'of HEAD');
    service.write(repository, '%48EAD', 'a.xlsx', 'of a name that looks alike');
    service.write(repository, 'feature/x', 'a.xlsx', 'of a feature');
    const { exitCode, stderr } = await commands.command(['sync']);
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
    expect(service.takeRequests().filter((request) => request.endsWith('?branch=HEAD'))).toHaveLength(1);
    expect(Object.keys(await commands.status())).toEqual([
      'org.example/plan.git/%252548EAD',
      'org.example/plan.git/%48EAD',
      'org.example/plan.git/feature%2Fx',
      'org.example/plan.git/main',
    ]);
    expect(await commands.text('mirror/org.example/plan.git/%48EAD/a.xlsx')).toBe('of HEAD');
    expect(await commands.text('mirror/org.example/plan.git/%252548EAD/a.xlsx')).toBe(
      'of a name that looks alike',
    );
    service.write(repository, 'HEAD', 'a.xlsx', 'of HEAD, second version');
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    expect(await commands.text('mirror/org.example/plan.git/%48EAD/a.xlsx')).toBe('of HEAD, second version');
    const without = { BRANCHES_EXCLUDE: 'HEAD', GUARD_TARGETS: 'off' };
    expect((await commands.command(['sync'], without)).exitCode).toBe(0);
    expect((await commands.command(['status'], without)).stdout).toMatch(/^gone .*%48EAD$/m);
    expect((await commands.command(['workbooks', 'list'])).stdout).toMatch(/a\.xlsx +HEAD /);
  });

  it('replaces the contents without a branch, as any other does', async () => {
    const commands = await startCommands();
    const { service } = commands;
    const repository = service.addRepository('Texts', { 'readme.md': 'no workbook' });
    await commands.command(['sync']);
    expect(Object.keys(await commands.status())).toEqual(['Texts/HEAD']);
    service.write(repository, 'HEAD', 'a.xlsx', 'of HEAD');
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    expect((await commands.command(['sync'])).exitCode).toBe(0);
    expect(Object.keys(await commands.status())).toEqual(['Texts/%48EAD']);
    expect(await commands.text('mirror/Texts/%48EAD/a.xlsx')).toBe('of HEAD');
  });
});
