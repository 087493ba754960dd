import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { openMirror } from '../../../../src/app/open-mirror.ts';
import { runPass } from '../../../../src/mirror/pass/pass.ts';
import type { FakeService } from '../../../support/fake-service.ts';
import { startFake } from '../../../support/started-fake.ts';
import { mirrorSettings } from '../../../support/settings.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it.each([
  ['while it polls', /\/repos$/, 0],
  ['while it pulls', /contents\?branch/, 1],
])('a pass publishes nothing of a service that the settings replaced %s', async (_when, request, begun) => {
  const [former, present] = [await startFake(), await startFake()];
  former.addRepository('Plan', { 'a.xlsx': 'of the former service' });
  present.addRepository('Plan', { 'a.xlsx': 'of the present service' });
  const directory = await temporaryFolder();
  const settingsFor = (service: FakeService) => mirrorSettings(service.settingsFor(directory));
  const mirror = await openMirror(settingsFor(former), () => {}, { outlastsPasses: true });
  onTestFinished(() => mirror.close());
  const { signal } = new AbortController();
  former.fault = (path) => {
    if (!request.test(path)) return null;
    const released = mirror.take(settingsFor(present));
    return { kind: 'delay', released };
  };
  await runPass(mirror.context, mirror.policy, 'schedule', signal);
  expect(former.takeDownloads()).toHaveLength(begun);
  await mirror.closeReplaced();
  await runPass(mirror.context, mirror.policy, 'settings', signal);
  const file = join(directory, 'mirror', 'Plan', 'main', 'a.xlsx');
  expect(await readFile(file, 'utf8')).toBe('of the present service');
});
