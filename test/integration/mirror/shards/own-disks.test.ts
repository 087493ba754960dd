import { readApprovals } from '../../../../src/mirror/store/documents.ts';
import { describe, expect, it, onTestFinished } from 'vitest';

import { approveHere } from '../../../support/tasks.ts';
import { ownerOf } from '../../../../src/mirror/plan/selection.ts';
import { startFake } from '../../../support/started-fake.ts';
import { type HarnessSettings, MirrorHarness } from '../../../support/mirror-harness.ts';

/** Two instances with their own disks; the first had everything before. */
async function split(settings: HarnessSettings = {}) {
  const service = await startFake();
  for (let at = 0; at < 12; at += 1) service.addRepository(`Book ${at}`, { 'plan.xlsx': `${at}` });
  const first = await MirrorHarness.open(service, { ...settings, SHARD: '1/1' });
  onTestFinished(() => first.close());
  await first.pass();
  await first.restart({ SHARD: '1/2' });
  const second = await MirrorHarness.open(service, { ...settings, SHARD: '2/2' });
  onTestFinished(() => second.close());
  const moved = service.repositories.filter(({ id }) => ownerOf(id, 2) === 2);
  return { service, first, second, moved: moved.map(({ fullName }) => `${fullName}/main`).sort() };
}

describe('instances with their own disks', () => {
  it('keep the trees that another one mirrors now until a person approves', async () => {
    const { service, first, second, moved } = await split();
    await second.pass();
    expect(await second.targets()).toEqual(moved);
    service.takeDownloads();
    const { exitCode, results } = await first.pass();
    expect(exitCode).toBe(0);
    expect(service.takeDownloads()).toEqual([]);
    const held = results.filter(({ action }) => action.reason === 'not-selected');
    expect(held.map(({ action }) => action.path).sort()).toEqual(moved);
    expect(await first.targets()).toHaveLength(12);
    expect(first.eventsOf('deletion.held')).toEqual([]);
    const [target = ''] = moved;
    const shard = { index: 1, count: 2 };
    await approveHere({ ...first.diskSettings, shard }, [target]);
    expect(await first.results()).toMatchObject({ [target]: { action: 'retire', reason: 'moved' } });
    expect(await first.targets()).toHaveLength(11);
    const kept = [...(await first.files('history')).keys()].filter((path) => path.startsWith(target));
    expect(kept).not.toEqual([]);
    expect(await readApprovals(first.context.store.layout)).toEqual(new Map());
  });

  it('resume returned trees, without a download of unchanged ones', async () => {
    const { service, first, moved } = await split();
    await first.pass();
    service.takeDownloads();
    await first.restart({ SHARD: '1/1' });
    const { summary } = await first.pass();
    expect(summary).toMatchObject({ targets: 12, pulled: 0, held: 0 });
    expect(moved.length).toBeGreaterThan(0);
    expect(service.takeDownloads()).toEqual([]);
    expect(await first.targets()).toHaveLength(12);
  });

  it('retire trees that the service no longer has, even of another instance', async () => {
    const { service, first, moved } = await split({ RETIRE_AFTER_PASSES: '1' });
    const gone = service.repositories.find(({ fullName }) => `${fullName}/main` === moved[0]);
    if (gone !== undefined) service.removeRepository(gone);
    expect(await first.results()).toMatchObject({ [moved[0] ?? '']: { action: 'retire' } });
  });
});
