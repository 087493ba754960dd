import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { initialLive } from '../../../../src/daemon/status/live.ts';
import { createMirrorStatus } from '../../../../src/daemon/status/mirror-status.ts';
import { createHooks } from '../../../../src/daemon/hooks/hooks.ts';
import { startReceiver } from '../../../support/listen.ts';
import { type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

/** The hooks of a mirror; they end with the test. */
function hooksOf({ loaded, opened, events }: MirrorHarness): ReturnType<typeof createHooks> {
  const live = initialLive(0);
  const hooks = createHooks(
    () => loaded,
    opened,
    (event) => events.push(event),
    createMirrorStatus(
      () => loaded,
      opened,
      () => live,
    ),
  );
  onTestFinished(() => hooks.close(1000));
  return hooks;
}

it('createHooks runs the command for published, renamed and removed targets, in the tree while there is one', async () => {
  const folder = await temporaryFolder();
  const script = `echo "$MIRROR_EVENT $MIRROR_TARGET $MIRROR_CHANGES\${MIRROR_FINGERPRINT:+,listed} $(wc -l) \${PWD#$MIRROR_DIRECTORY}\${MIRROR_MOVED_FROM:+ from $MIRROR_MOVED_FROM}" >> ${folder}/ran`;
  const command = JSON.stringify(['/bin/sh', '-c', script]);
  const { service, mirror } = await startPair({}, { HOOKS_AFTER_PUBLISH: command });
  const hooks = hooksOf(mirror);
  const pass = async (): Promise<string[]> => {
    await writeFile(join(folder, 'ran'), '');
    await mirror.pass({ parts: { emit: hooks.sink } });
    expect(await hooks.settled()).toBe(0);
    return (await readFile(join(folder, 'ran'), 'utf8')).trim().split('\n').sort();
  };
  const plan = service.addRepository('Plan', { 'a.xlsx': 'a1', 'b.xlsx': 'b1' });
  const gone = service.addRepository('Gone', { 'c.xlsx': 'c1' });
  expect(await pass()).toEqual([
    'published Gone/main known,listed 1 /mirror/Gone/main',
    'published Plan/main known,listed 2 /mirror/Plan/main',
  ]);
  service.write(plan, 'main', 'a.xlsx', 'a2');
  expect(await pass()).toEqual(['published Plan/main known,listed 1 /mirror/Plan/main']);
  service.renameRepository(plan, 'Budget');
  expect(await pass()).toEqual(['moved Budget/main known,listed 0 /mirror/Budget/main from Plan/main']);
  service.write(plan, 'main', 'b.xlsx', 'b2 after the move');
  expect(await pass()).toEqual(['published Budget/main known,listed 1 /mirror/Budget/main']);
  service.removeRepository(gone);
  expect(await pass()).toEqual(['']);
  expect(await pass()).toEqual(['retired Gone/main unknown 0']);
  expect(await pass()).toEqual(['']);
});

it('reports a drifted tree soon, and not only after the next pass', async () => {
  const { origin, received } = await startReceiver();
  const { service, mirror } = await startPair({}, { HOOKS_WEBHOOK: origin });
  const hooks = hooksOf(mirror);
  const { id: repositoryId } = service.addRepository('Plan', { 'a.xlsx': 'a' });
  await mirror.pass();
  const drift = { added: 0, missing: 0, modified: 1, first: 'a.xlsx' };
  const note = { ...drift, sinceMs: Date.now(), needsRepair: true };
  await mirror.opened.state.saveDrift({ repositoryId, branch: 'main' }, 'Plan/main', note);
  hooks.sink({ name: 'target.drifted', target: 'Plan/main', ...drift });
  await expect
    .poll(() => received.map(({ body }) => JSON.parse(body) as object))
    .toMatchObject([{ type: 'target.drifted', target: 'Plan/main' }]);
});
