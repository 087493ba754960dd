import { rename } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { everyManifest } from '../../../../src/cli/service/every-manifest.ts';
import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { startPair } from '../../../support/mirror-harness.ts';

it('reads a manifest that a publish takes away for an instant after the others', async () => {
  const { service, mirror } = await startPair();
  for (const name of ['A', 'B', 'C']) service.addRepository(name, { 'plan.xlsx': name });
  await mirror.pass();
  const manifest = join(mirror.directory, 'manifests/B/main.json');
  await rename(manifest, `${manifest}.away`);
  const read: string[] = [];
  for await (const found of everyManifest(layoutOf(mirror.directory), AbortSignal.timeout(50_000))) {
    read.push('path' in found ? found.path : found.problem);
    if (read.length === 2) await rename(`${manifest}.away`, manifest);
  }
  expect(read).toEqual(['A/main', 'C/main', 'B/main']);
});
