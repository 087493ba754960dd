import { readApprovals } from '../../../../src/mirror/store/documents.ts';
import { describe, expect, it } from 'vitest';

import { approveHere } from '../../../support/tasks.ts';
import { type HarnessSettings, startPair } from '../../../support/mirror-harness.ts';

const NAMES = ['Accounting', 'Budget', 'Controlling', 'Forecast', 'Payroll', 'Travel'];

async function mirrored(settings: HarnessSettings = {}): ReturnType<typeof startPair> {
  const { service, mirror } = await startPair({}, { GUARD_TARGETS: '20%', ...settings });
  for (const name of NAMES) service.addRepository(name, { 'plan.xlsx': name });
  await mirror.exactPass();
  return { service, mirror };
}

describe('a filter with a typing error', () => {
  it('does not change the mirror until a person approves, and suggests similar names', async () => {
    const { service, mirror } = await mirrored();
    await mirror.restart({ REPOSITORIES_INCLUDE: 'accounting' });
    service.write(service.named(), 'main', 'plan.xlsx', 'new');
    for (const trigger of ['schedule', 'command'] as const) {
      const { exitCode, summary } = await mirror.pass({ trigger });
      expect(exitCode).toBe(1);
      expect(summary).toMatchObject({ held: 6, targets: 6 });
    }
    await mirror.expectExact();
    expect(mirror.eventsOf('selection.unmatched')).toEqual([
      {
        name: 'selection.unmatched',
        setting: 'repositories.include',
        pattern: 'accounting',
        nearest: 'Accounting',
      },
    ]);
    expect(mirror.eventsOf('selection.empty')).toEqual([]);
    expect(mirror.eventsOf('deletion.held')).toHaveLength(6);
    const held = mirror.eventsOf('deletion.held');
    expect(held.map(({ target }) => target).sort()).toEqual(NAMES.map((name) => `${name}/main`));
    expect(held[0]).toMatchObject({ subject: 'deselected', deletions: 6, of: 6 });

    // One target is approved: the others stay as they were.
    await approveHere(mirror.diskSettings, ['Travel/main']);
    expect(await mirror.results()).toMatchObject({
      'Travel/main': { action: 'hold', reason: 'not-selected' },
      'Budget/main': { action: 'keep' },
    });
    expect(await readApprovals(mirror.context.store.layout)).toEqual(new Map());
    await approveHere(mirror.diskSettings, null);
    const { exitCode } = await mirror.pass();
    expect(mirror.eventsOf('selection.empty')).toMatchObject([{ name: 'selection.empty', repositories: 6 }]);
    expect(exitCode).toBe(1);
    expect(await mirror.targets()).toHaveLength(6);
  });

  it('leaves no trace when it is corrected', async () => {
    const { mirror } = await mirrored();
    await mirror.restart({ REPOSITORIES_INCLUDE: 'accounting' });
    await mirror.pass();
    await approveHere(mirror.diskSettings, ['Travel/main']);
    await mirror.restart({ REPOSITORIES_INCLUDE: '**' });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect(await readApprovals(mirror.context.store.layout)).toEqual(new Map());
    const records = [...(await mirror.context.state.records()).values()];
    expect(records.every(({ held }) => held === null)).toBe(true);
    // An unused approval does not apply to the next error.
    await mirror.restart({ REPOSITORIES_INCLUDE: 'travel' });
    expect((await mirror.results())['Travel/main']).toMatchObject({ action: 'keep' });
  });
});

describe('a filter that excludes no more than the guard allows', () => {
  it('is applied immediately', async () => {
    const { mirror } = await mirrored();
    await mirror.restart({ REPOSITORIES_EXCLUDE: 'Travel' });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect((await mirror.results())['Travel/main']).toMatchObject({ action: 'hold', reason: 'not-selected' });
  });

  it('causes a warning if it names a missing branch or target', async () => {
    const { mirror } = await mirrored();
    await mirror.restart({ BRANCHES_EXCLUDE: 'mainn', TARGETS: 'Traevl/main' });
    expect((await mirror.pass()).exitCode).toBe(0);
    expect(mirror.eventsOf('selection.unmatched')).toMatchObject([
      { setting: 'branches.exclude', nearest: 'main' },
      { setting: 'targets', nearest: 'Travel' },
    ]);
  });
});
