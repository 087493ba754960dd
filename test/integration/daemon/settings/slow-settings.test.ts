import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { openMirror } from '../../../../src/app/open-mirror.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { runPass } from '../../../../src/mirror/pass/pass.ts';
import type { FakeService } from '../../../support/fake-service.ts';
import { startFake } from '../../../support/started-fake.ts';
import { mirrorSettings } from '../../../support/settings.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('a pass publishes nothing of a service that the settings replaced during it', async () => {
  const [former, present] = [await startFake(), await startFake()];
  former.addRepository('Slow', { 'huge.xlsx': 'of the former service' });
  present.addRepository('Slow', { 'huge.xlsx': 'of the present service' });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const directory = await temporaryFolder();
  const settingsFor = (service: FakeService) => mirrorSettings(service.settingsFor(directory));
  const events: MirrorEvent[] = [];
  const mirror = await openMirror(settingsFor(former), (event) => events.push(event), {
    outlastsPasses: true,
  });
  onTestFinished(() => mirror.close());
  onTestFinished(() => release());
  const signal = AbortSignal.timeout(250_000);
  let isTaken = false;
  former.fault = (path) => {
    if (!isTaken) void mirror.take(settingsFor(present));
    isTaken = true;
    return /contents\?branch/.test(path) ? { kind: 'wait', after: 5, released } : null;
  };
  await runPass(mirror.context, { ...mirror.policy, slowAfterMs: 1000 }, 'schedule', signal);
  await mirror.closeReplaced();
  await runPass(mirror.context, mirror.policy, 'settings', signal);
  release();
  await mirror.pullsEnded();
  const results = events.flatMap((event) => (event.name === 'target.slow_ended' ? [event.result] : []));
  expect(results).toEqual(['called off']);
  const file = join(directory, 'mirror', 'Slow', 'main', 'huge.xlsx');
  expect(await readFile(file, 'utf8')).toBe('of the present service');
});
