import { appendFile, chmod, lstat, mkdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { readTargetList } from '../../../../src/mirror/store/documents.ts';
import type { FakeService } from '../../../support/fake-service.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';
import { directorySettings } from '../../../support/settings.ts';
import { runTaskHere } from '../../../support/tasks.ts';

async function startMirrored(settings: HarnessSettings = {}) {
  const { service, mirror } = await startPair({}, settings);
  const repository = service.addRepository('A', {
    'plan.xlsx': 'v0',
    'sub/notes.txt': 'notes',
    'same.xlsx': 's',
  });
  service.addRepository('B', { 'plan.xlsx': 'b' });
  await mirror.pass();
  service.write(repository, 'main', 'plan.xlsx', 'v1');
  await mirror.pass();
  return { service, mirror, tree: join(mirror.directory, 'mirror/A/main') };
}

/** `verify --repair`, as the command does it without a daemon. */
async function repairOf(mirror: MirrorHarness, service: FakeService | null) {
  const settings = directorySettings(mirror.directory, service?.settingsFor(mirror.directory));
  return (await mirror.whileClosed(() => runTaskHere('repair', settings, {}))).repaired;
}

/** The result of a repair. */
const repaired = (fromDisk: string[], pulled: string[], inventoryWritten = false) => ({
  fromDisk,
  pulled,
  inventoryWritten,
});

/** Changes of a tree that lose no bytes, as the disk has them elsewhere. */
const HARMLESS: readonly (readonly [string, (tree: string) => Promise<unknown>])[] = [
  ['a file is added', (tree) => writeFile(join(tree, 'mine.txt'), 'mine')],
  ['an empty folder is added', (tree) => mkdir(join(tree, 'empty'))],
  ['a link is added', (tree) => symlink('/etc/passwd', join(tree, 'link'))],
  ['a file has another time', (tree) => utimes(join(tree, 'plan.xlsx'), 1, 1)],
  ['a file has another mode', (tree) => chmod(join(tree, 'plan.xlsx'), 0o600)],
];

describe('verify --repair', () => {
  it.each(HARMLESS)('needs no service if %s', async (_what, damage) => {
    const { mirror, tree } = await startMirrored({ HISTORY_REPLACED: '3' });
    const same = await lstat(join(tree, 'same.xlsx'));
    await damage(tree);
    expect(await repairOf(mirror, null)).toEqual(repaired(['A/main'], []));
    await mirror.expectExact();
    expect((await lstat(join(tree, 'same.xlsx'))).ino).toBe(same.ino);
  });

  it('repairs the other trees if a manifest cannot be read', async () => {
    const { service, mirror } = await startMirrored();
    await rm(join(mirror.directory, 'manifests/A/main.json'));
    await mkdir(join(mirror.directory, 'manifests/A/main.json/in-its-place'), { recursive: true });
    await writeFile(join(mirror.directory, 'mirror/B/main/plan.xlsx'), 'edited');
    expect(await repairOf(mirror, service)).toMatchObject({ pulled: ['B/main'] });
    expect((await mirror.tree('B/main')).get('plan.xlsx')?.toString()).toBe('b');
  });

  it('needs no service if the history has the bytes of a removed file', async () => {
    const { service, mirror, tree } = await startMirrored({ HISTORY_REPLACED: '3' });
    const repository = service.named();
    service.write(repository, 'main', 'plan.xlsx', 'v0');
    await mirror.pass();
    await rm(join(tree, 'plan.xlsx'));
    expect(await repairOf(mirror, null)).toEqual(repaired(['A/main'], []));
    await mirror.expectExact();
  });

  it.each<[string, (tree: string) => Promise<unknown>]>([
    ['was edited in place', (tree) => appendFile(join(tree, 'same.xlsx'), '!')],
    ['never left, so that the history lacks it', (tree) => rm(join(tree, 'same.xlsx'))],
    ['is a folder now', (tree) => rm(join(tree, 'plan.xlsx')).then(() => mkdir(join(tree, 'plan.xlsx')))],
    [
      'has a wrong size in its manifest',
      async (tree) => {
        const manifest = join(tree, '../../../manifests/A/main.json');
        const text = await readFile(manifest, 'utf8');
        await writeFile(manifest, text.replace(/"size": ?2\b/, '"size":6'));
      },
    ],
  ])('pulls a file that %s', async (_what, damage) => {
    const { service, mirror, tree } = await startMirrored({ HISTORY_REPLACED: '3' });
    await damage(tree);
    await expect(repairOf(mirror, null)).rejects.toMatchObject({ code: 'settings.invalid' });
    expect(await repairOf(mirror, service)).toEqual(repaired([], ['A/main']));
    await mirror.expectExact();
  });

  it.each(['auto', 'rename'])(
    'pulls a missing tree, and one with an unreadable manifest (%s)',
    async (publish) => {
      const { service, mirror, tree } = await startMirrored({ PUBLISH: publish });
      await rm(tree, { recursive: true });
      await writeFile(join(mirror.directory, 'manifests/B/main.json'), 'no manifest');
      expect(await repairOf(mirror, service)).toEqual(repaired([], ['A/main', 'B/main']));
      await mirror.expectExact();
    },
  );

  it('restores a target lost with its manifest, and rewrites a damaged inventory', async () => {
    const { service, mirror, tree } = await startMirrored();
    await rm(tree, { recursive: true });
    await rm(join(mirror.directory, 'manifests/A/main.json'));
    expect(await repairOf(mirror, service)).toEqual(repaired([], ['A/main']));
    await mirror.expectExact();
    await writeFile(join(mirror.directory, 'inventory.json'), '{}');
    expect(await repairOf(mirror, null)).toEqual(repaired([], [], true));
    expect(await readTargetList(layoutOf(mirror.directory))).toMatchObject({
      targets: [{ path: 'A/main' }, { path: 'B/main' }],
    });
  });
});
