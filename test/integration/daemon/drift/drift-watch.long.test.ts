import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import { startDriftWatch } from '../../../../src/daemon/drift/drift-watch.ts';
import { startMirrored } from '../../../support/mirror-harness.ts';

/** A mirror of one workbook whose trees are watched, and repaired. */
async function watchedMirror() {
  const { mirror: harness } = await startMirrored('Plan', { 'a.xlsx': 'a1' }, { DRIFT: 'repair' });
  const { directory, events, loaded, opened: mirror } = harness;
  const repairNow = vi.fn<() => void>();
  const watch = await startDriftWatch(loaded, mirror, (event) => events.push(event), repairNow);
  if (watch === null) throw new Error('drift is off');
  onTestFinished(() => watch.close());
  // The first looks are at everything: until the watch is complete, and once after that.
  const examined = vi.spyOn(mirror.monitor, 'scanned');
  await vi.waitFor(async () => {
    const before = examined.mock.calls.length;
    watch.afterPass();
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(examined.mock.calls).toHaveLength(before);
  }, 60_000);
  const change = async (): Promise<void> => {
    const file = join(directory, 'mirror/Plan/main/a.xlsx');
    await chmod(file, 0o644);
    await writeFile(file, 'something else');
  };
  const notes = async () =>
    [...(await mirror.state.records()).values()].map(({ drift }) => drift?.needsRepair);
  return { mirror, watch, repairNow, events, pass: () => harness.pass(), change, notes };
}

it('the watch records drift, and has it repaired, once the state can be written again', async () => {
  const { mirror, watch, repairNow, change, notes } = await watchedMirror();
  const saveDrift = vi.spyOn(mirror.state, 'saveDrift').mockResolvedValueOnce(false);
  await change();
  await vi.waitFor(() => expect(saveDrift).toHaveBeenCalledTimes(1), 60_000);
  expect(repairNow).not.toHaveBeenCalled();
  watch.afterPass();
  await vi.waitFor(() => expect(repairNow).toHaveBeenCalledTimes(1), 60_000);
  expect(await notes()).toEqual([true]);
});

it('records the same drift again after its repair', async () => {
  const { watch, repairNow, events, pass, change, notes } = await watchedMirror();
  await change();
  await vi.waitFor(() => expect(repairNow).toHaveBeenCalledTimes(1), 60_000);
  await pass();
  // Before the repair itself has been looked at.
  await change();
  expect(await notes()).toEqual([undefined]);
  watch.afterPass();
  await vi.waitFor(async () => expect(await notes()).toEqual([true]), 60_000);
  expect(events.filter(({ name }) => name === 'target.drifted')).toHaveLength(2);
});

it('does not take a publish that must still be completed for drift', async () => {
  const { mirror, watch, events, change } = await watchedMirror();
  const { unfinished } = mirror.store;
  unfinished.set('Plan/main', new Error('a lease holds'));
  await change();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(events.filter(({ name }) => name === 'target.drifted')).toEqual([]);
  unfinished.clear();
  watch.afterPass();
  await change();
  await vi.waitFor(() => expect(events.map(({ name }) => name)).toContain('target.drifted'), 60_000);
});
