import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { openMirror } from '../../../../src/app/open-mirror.ts';
import { MirrorStatusReader } from '../../../../src/daemon/status/mirror-status.ts';
import { createHooks } from '../../../../src/daemon/hooks/hooks.ts';
import type { EventSink } from '../../../../src/app/events.ts';
import { runPass } from '../../../../src/mirror/pass/pass.ts';
import { FakeService } from '../../../support/fake-service.ts';
import { mirrorSettings } from '../../../support/settings.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('runs the command for published, renamed and removed targets, in the tree while there is one', async () => {
  const service = await FakeService.start();
  onTestFinished(() => service.close());
  const folder = await temporaryFolder();
  const script = `echo "$MIRROR_EVENT $MIRROR_TARGET $MIRROR_CHANGES $(wc -l) \${PWD#$MIRROR_DIRECTORY}" >> ${folder}/ran`;
  const settings = mirrorSettings({
    ...service.settingsFor(join(folder, 'mirrored')),
    GUARD_TARGETS: 'off',
    HOOKS_AFTER_PUBLISH: JSON.stringify(['/bin/sh', '-c', script]),
  });
  const sinks: EventSink[] = [];
  const emit: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emit);
  const hooks = createHooks(
    () => settings,
    mirror,
    emit,
    new MirrorStatusReader(() => settings, mirror).read,
  );
  sinks.push(hooks.sink);
  onTestFinished(async () => {
    await hooks.close(1000);
    await mirror.close();
  });
  const pass = async (): Promise<string[]> => {
    await writeFile(join(folder, 'ran'), '');
    await runPass(mirror.context, mirror.policy, 'command', AbortSignal.timeout(250_000));
    expect(await hooks.settled()).toBe(0);
    return (await readFile(join(folder, 'ran'), 'utf8')).trim().split('\n').sort();
  };
  const plan = service.addRepository('Plan', { 'a.xlsx': 'a1', 'b.xlsx': 'b1' });
  const gone = service.addRepository('Gone', { 'c.xlsx': 'c1' });
  expect(await pass()).toEqual([
    'published Gone/main known 1 /mirror/Gone/main',
    'published Plan/main known 2 /mirror/Plan/main',
  ]);
  service.write(plan, 'main', 'a.xlsx', 'a2');
  expect(await pass()).toEqual(['published Plan/main known 1 /mirror/Plan/main']);
  service.renameRepository(plan, 'Budget');
  expect(await pass()).toEqual(['moved Budget/main known 0 /mirror/Budget/main']);
  service.write(plan, 'main', 'b.xlsx', 'b2 after the move');
  expect(await pass()).toEqual(['published Budget/main known 1 /mirror/Budget/main']);
  service.removeRepository(gone);
  expect(await pass()).toEqual(['']);
  expect(await pass()).toEqual(['retired Gone/main unknown 0']);
  expect(await pass()).toEqual(['']);
});
