import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished, vi } from 'vitest';

import type { MirrorEvent } from '../../../../src/app/events.ts';
import { openMirror } from '../../../../src/app/open-mirror.ts';
import { loadSettings } from '../../../../src/config/load.ts';
import { startDriftWatch } from '../../../../src/daemon/drift/drift-watch.ts';
import { runPass } from '../../../../src/mirror/pass/pass.ts';
import { API_KEY, API_TOKEN, FakeService } from '../../../support/fake-service.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('notes what differs, and has it repaired, once the state can be written again', async () => {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  const directory = join(await temporaryFolder(), 'mirrored');
  const { settings } = loadSettings({
    flags: {},
    env: {
      WORKBOOK_MIRROR_SERVICE_BASE_URL: service.baseUrl,
      WORKBOOK_MIRROR_SERVICE_API_KEY: API_KEY,
      WORKBOOK_MIRROR_SERVICE_API_TOKEN: API_TOKEN,
      WORKBOOK_MIRROR_DIRECTORY: directory,
      WORKBOOK_MIRROR_DRIFT: 'repair',
    },
    needs: ['service', 'directory'],
    defaultConfigFile: '/nonexistent.yaml',
  });
  service.addRepository('Plan', { 'a.xlsx': 'a1' });
  const events: MirrorEvent[] = [];
  const mirror = await openMirror(settings, (event) => events.push(event));
  onTestFinished(() => mirror.close());
  await runPass(mirror.context, mirror.policy, 'command', AbortSignal.timeout(50_000));
  const repairNow = vi.fn<() => void>();
  const watch = await startDriftWatch(settings, mirror, (event) => events.push(event), repairNow);
  onTestFinished(() => watch.close());
  // The first looks are at everything: until the watch is complete, and once after that.
  const examined = vi.spyOn(mirror.monitor, 'scanned');
  await vi.waitFor(async () => {
    const before = examined.mock.calls.length;
    watch.afterPass();
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(examined.mock.calls).toHaveLength(before);
  }, 20_000);

  const saveDrift = vi.spyOn(mirror.state, 'saveDrift').mockResolvedValueOnce(false);
  const file = join(directory, 'mirror/Plan/main/a.xlsx');
  await chmod(file, 0o644);
  await writeFile(file, 'something else');
  await vi.waitFor(() => expect(saveDrift).toHaveBeenCalledTimes(1), 5000);
  expect(repairNow).not.toHaveBeenCalled();
  watch.afterPass();
  await vi.waitFor(() => expect(repairNow).toHaveBeenCalledTimes(1), 10_000);
  const notes = [...(await mirror.state.records()).values()].map(({ drift }) => drift?.needsRepair);
  expect(notes).toEqual([true]);
});
