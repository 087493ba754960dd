import { describe, expect, it } from 'vitest';

import type { FakeService } from '../../../support/fake-service.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

const NAMES = ['Accounting', 'Budget', 'Controlling', 'Forecast', 'Payroll', 'Travel'];

async function mirrored(): Promise<{ service: FakeService; mirror: MirrorHarness }> {
  const { service, mirror } = await startPair();
  for (const name of NAMES) service.addRepository(name, { 'plan.xlsx': name });
  await mirror.pass();
  await mirror.expectExact();
  return { service, mirror };
}

describe('a filter with a slip in it', () => {
  it('leaves the trees as they were, and is mirrored by again once it is right', async () => {
    const { service, mirror } = await mirrored();
    await mirror.restart({ REPOSITORIES_INCLUDE: 'accounting' });
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(mirror.eventsOf('selection.unmatched')).toMatchObject([
      { setting: 'repositories.include', pattern: 'accounting' },
    ]);
    expect(mirror.eventsOf('selection.empty')).toMatchObject([{ repositories: 6 }]);
    expect((await mirror.results())['Travel/main']).toMatchObject({ action: 'hold', reason: 'not-selected' });
    await mirror.expectExact();

    const [repository] = service.repositories;
    if (repository !== undefined) service.write(repository, 'main', 'plan.xlsx', 'new');
    await mirror.restart({ REPOSITORIES_INCLUDE: '**' });
    expect((await mirror.pass()).exitCode).toBe(0);
    await mirror.expectExact();
  });

  it('makes a first pass fail that finds nothing to do', async () => {
    const { service, mirror } = await startPair({}, { REPOSITORIES_INCLUDE: 'acounting' });
    service.addRepository('Accounting', { 'plan.xlsx': 'x' });
    expect((await mirror.pass()).exitCode).toBe(1);
    expect(mirror.eventsOf('selection.unmatched')).toMatchObject([{ nearest: 'Accounting' }]);
    expect(mirror.eventsOf('selection.empty')).toHaveLength(1);
    await mirror.pass();
    expect(mirror.eventsOf('selection.empty')).toHaveLength(1);
  });
});

describe('a filter that leaves out a target', () => {
  it('is followed at once', async () => {
    const { mirror } = await mirrored();
    await mirror.restart({ REPOSITORIES_EXCLUDE: 'Travel' });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect((await mirror.results())['Travel/main']).toMatchObject({ action: 'hold', reason: 'not-selected' });
  });

  it('is warned of where it names a branch, or a target, that is not there', async () => {
    const { mirror } = await mirrored();
    await mirror.restart({ BRANCHES_EXCLUDE: 'mainn', TARGETS: 'Traevl/main' });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect(mirror.eventsOf('selection.unmatched')).toMatchObject([
      { setting: 'branches.exclude', nearest: 'main' },
      { setting: 'targets', nearest: 'Travel' },
    ]);
  });
});
