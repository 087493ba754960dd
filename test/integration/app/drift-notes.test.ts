import { cp, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { noteForRepair, noteRestored } from '../../../src/app/drift-notes.ts';
import { knownDirectoryId } from '../../../src/mirror/store/directory.ts';
import { driftNotesOf, startMirrored, startPair } from '../../support/mirror-harness.ts';

it('notes about drift are found by the paths of their trees, also of two branches that differ in case alone', async () => {
  const { service, mirror } = await startPair();
  const repository = service.addRepository('Plan', { 'a.xlsx': 'a' });
  service.write(repository, 'Main', 'b.xlsx', 'b');
  await mirror.pass();
  const targets = await mirror.targets();
  expect(targets).toEqual(['Plan/Main', expect.stringMatching(/^Plan\/main~/)]);
  for (const path of targets) await noteForRepair(mirror.context, path, [], Date.now());
  expect([...(await driftNotesOf(mirror)).keys()].sort()).toEqual(targets);
});

it('are made for trees whose manifest came from a backup, although the state cache is the present one', async () => {
  const { service, mirror, repository } = await startMirrored('Plan', { 'a.xlsx': 'a' });
  const [tree, manifest] = ['mirror/Plan/main', 'manifests/Plan/main.json'].map((path) =>
    join(mirror.directory, path),
  ) as [string, string];
  await cp(tree, `${mirror.directory}-backup`, { recursive: true, preserveTimestamps: true });
  service.write(repository, 'main', 'a.xlsx', 'newer');
  await mirror.pass();
  await cp(manifest, `${mirror.directory}-backup.json`, { preserveTimestamps: true });
  await mirror.stop();
  for (const [place, backup] of [
    [tree, '-backup'],
    [manifest, '-backup.json'],
  ] as const) {
    await rm(place, { recursive: true });
    await rename(mirror.directory + backup, place);
  }
  await mirror.restart();
  await mirror.pass();
  await mirror.expectExact();
});

it('are not made for a target whose last publish must still be completed', async () => {
  const { mirror } = await startMirrored('Plan', { 'a.xlsx': 'a' });
  await writeFile(join(mirror.directory, 'mirror/Plan/main/a.xlsx'), 'of the next state');
  const manifest = join(mirror.directory, 'manifests/Plan/main.json');
  await cp(manifest, `${manifest}.next`, { preserveTimestamps: true });
  await rename(`${manifest}.next`, manifest);
  const { state, store } = mirror.context;
  const note = async (unfinished: ReadonlyMap<string, unknown>): Promise<number> => {
    const parts = { store: { ...store, isNew: false, unfinished: new Map(unfinished) }, state };
    await noteRestored(parts, await state.records(), Date.now(), () => {});
    return (await driftNotesOf(mirror)).size;
  };
  expect(await note(new Map([['Plan/main', new Error('a lease')]]))).toBe(0);
  expect(await note(new Map())).toBe(1);
});

it('notes about drift in a restored directory are found again if they could not be saved', async () => {
  const { mirror } = await startMirrored('Plan', { 'a.xlsx': 'a' });
  const file = join(mirror.directory, 'mirror/Plan/main/a.xlsx');
  await rm(file);
  await writeFile(file, 'of another moment');
  const { layout } = mirror.context.store;
  await rm(join(layout.internal, 'directory-id'));
  const store = { ...mirror.context.store, isNew: true };
  const state = { saveDrift: () => Promise.resolve(false) };
  await noteRestored({ store, state }, new Map(), Date.now(), () => {});
  expect(await knownDirectoryId(layout)).toBeNull();
  await mirror.restart();
  expect(await knownDirectoryId(layout)).not.toBeNull();
  await mirror.pass();
  await mirror.expectExact();
});
