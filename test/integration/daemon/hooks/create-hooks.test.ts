import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import { MirrorStatusReader } from '../../../../src/daemon/status/mirror-status.ts';
import { createHooks } from '../../../../src/daemon/hooks/hooks.ts';
import { startPair } from '../../../support/mirror-harness.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('runs the command for published, renamed and removed targets, in the tree while there is one', async () => {
  const folder = await temporaryFolder();
  const script = `echo "$MIRROR_EVENT $MIRROR_TARGET $MIRROR_CHANGES $(wc -l) \${PWD#$MIRROR_DIRECTORY}" >> ${folder}/ran`;
  const command = JSON.stringify(['/bin/sh', '-c', script]);
  const { service, mirror } = await startPair({}, { HOOKS_AFTER_PUBLISH: command });
  const { loaded, opened } = mirror;
  const reader = new MirrorStatusReader(() => loaded, opened);
  const hooks = createHooks(
    () => loaded,
    opened,
    (event) => mirror.events.push(event),
    reader.read,
  );
  onTestFinished(() => hooks.close(1000));
  const pass = async (): Promise<string[]> => {
    await writeFile(join(folder, 'ran'), '');
    await mirror.pass({ parts: { emit: hooks.sink } });
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
