import { lstat, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { checkTargetList, readTargetList } from '../../../../src/mirror/store/documents.ts';
import { temporaryFolder } from '../../../support/temporary.ts';
import { type HarnessSettings, type MirrorHarness, startPair } from '../../../support/mirror-harness.ts';

const DAMAGED = 'it is not a list of targets as this program writes it';

const RETIRE_AT_ONCE: HarnessSettings = { RETIRE_AFTER_PASSES: '1' };

async function mirrored(settings: HarnessSettings = {}) {
  const { service, mirror } = await startPair({}, settings);
  for (const name of ['B', 'A', 'org/C.git']) service.addRepository(name, { 'plan.xlsx': name });
  await mirror.pass();
  return { service, mirror, file: join(mirror.directory, 'inventory.json') };
}

async function listed(mirror: MirrorHarness): Promise<string[]> {
  const { state, targets } = await readTargetList(layoutOf(mirror.directory));
  expect(state).toBe('ok');
  return targets.map(({ path }) => path);
}

/** Removes everything of a target. */
async function lose(mirror: MirrorHarness, target: string): Promise<void> {
  await rm(join(mirror.directory, 'mirror', target), { recursive: true });
  await rm(join(mirror.directory, 'manifests', `${target}.json`));
}

/** The entries of an earlier inventory that are missing now. */
async function lostOf(mirror: MirrorHarness, before: string): Promise<string[]> {
  await writeFile(join(mirror.directory, 'inventory.json'), before);
  const { inventory, lost } = await checkTargetList(mirror.context.store);
  expect(inventory).toBe('ok');
  return lost.map(({ path }) => path);
}

describe('the inventory of a directory', () => {
  it('names every target, and is written only when another set of them is mirrored', async () => {
    const { service, mirror, file } = await mirrored(RETIRE_AT_ONCE);
    expect(await listed(mirror)).toEqual(['A/main', 'B/main', 'org/C.git/main']);
    const [{ ino }, text] = [await lstat(file), await readFile(file, 'utf8')];
    expect(Object.keys(JSON.parse(text) as object)).toEqual(['format', 'service', 'targets', 'written_at']);
    service.write(service.named('A'), 'main', 'plan.xlsx', 'other bytes');
    await mirror.pass();
    expect((await lstat(file)).ino).toBe(ino);
    service.removeRepository(service.named('A'));
    service.renameRepository(service.named('B'), 'Renamed');
    service.addRepository('New', { 'n.xlsx': 'n' });
    await mirror.pass();
    expect(await listed(mirror)).toEqual(['New/main', 'Renamed/main', 'org/C.git/main']);
    expect(mirror.eventsOf('target.lost')).toEqual([]);
  });

  it('is written by the next pass if a directory has targets but no inventory', async () => {
    const { mirror, file } = await mirrored();
    await mirror.whileClosed(() => rm(file));
    await mirror.pass();
    expect(await listed(mirror)).toEqual(['A/main', 'B/main', 'org/C.git/main']);
  });

  it('is understood in the form of version 0.1.0, with a checksum and a slash after the address', async () => {
    const { mirror, file } = await mirrored();
    await mirror.whileClosed(async () => {
      const { format, ...rest } = JSON.parse(await readFile(file, 'utf8')) as { format: number };
      const former = { format, sha256: '0'.repeat(64), ...rest, service: 'https://example.com/' };
      await writeFile(file, JSON.stringify(former));
      expect(await readTargetList(layoutOf(mirror.directory))).toMatchObject({
        address: 'https://example.com',
      });
    });
    await mirror.pass();
    expect(mirror.eventsOf('inventory.damaged')).toEqual([]);
    expect(await listed(mirror)).toEqual(['A/main', 'B/main', 'org/C.git/main']);
  });

  it.each([
    ['half of it', (text: string) => text.slice(0, text.length / 2)],
    ['a path that leads elsewhere', (text: string) => text.replace('"B/main"', '"../B"')],
  ])('reports %s once, and writes a new one', async (_what, spoil) => {
    const { mirror, file } = await mirrored();
    await mirror.whileClosed(async () => writeFile(file, spoil(await readFile(file, 'utf8'))));
    await mirror.pass();
    await mirror.pass();
    expect(mirror.eventsOf('inventory.damaged')).toEqual([{ name: 'inventory.damaged', problem: DAMAGED }]);
    expect(await listed(mirror)).toEqual(['A/main', 'B/main', 'org/C.git/main']);
  });
});

it('an inventory that is a link is neither followed nor written through, and is replaced by a file', async () => {
  const { mirror, file } = await mirrored();
  const outside = join(await temporaryFolder(), 'inventory.json');
  const text = await readFile(file, 'utf8');
  await mirror.whileClosed(async () => {
    await rename(file, outside);
    await symlink(outside, file);
    await lose(mirror, 'A/main');
  });
  await mirror.pass();
  expect(mirror.eventsOf('inventory.damaged')).toMatchObject([{ problem: DAMAGED }]);
  expect(mirror.eventsOf('target.lost')).toEqual([]);
  expect((await lstat(file)).isFile()).toBe(true);
  expect(await readFile(outside, 'utf8')).toBe(text);
});

describe('a target that is lost with its manifest', () => {
  it('stays in the inventory while it cannot be pulled, and is reported once', async () => {
    const { service, mirror } = await mirrored();
    await mirror.whileClosed(() => lose(mirror, 'A/main'));
    service.knobs.beforeDownload = () => {
      throw new Error('no contents');
    };
    await mirror.pass();
    await mirror.pass();
    expect(mirror.eventsOf('target.lost')).toHaveLength(1);
    expect(await listed(mirror)).toContain('A/main');
  });

  it('leaves the inventory once a complete listing lacks it', async () => {
    const { service, mirror } = await mirrored();
    await mirror.whileClosed(() => lose(mirror, 'A/main'));
    service.removeRepository(service.named('A'));
    await mirror.pass();
    expect(mirror.eventsOf('target.lost')).toHaveLength(1);
    expect(await listed(mirror)).toEqual(['B/main', 'org/C.git/main']);
  });

  it('is reported even if it was retired before, and the inventory was written under a clock ahead', async () => {
    const { service, mirror, file } = await mirrored(RETIRE_AT_ONCE);
    const repository = service.named('A');
    service.removeRepository(repository);
    await mirror.pass();
    service.repositories.push(repository);
    await mirror.pass();
    const list = JSON.parse(await readFile(file, 'utf8')) as object;
    await writeFile(file, JSON.stringify({ ...list, written_at: '2999-01-01T00:00:00.000Z' }));
    await mirror.pass();
    await mirror.whileClosed(() => lose(mirror, 'A/main'));
    await mirror.pass();
    expect(mirror.eventsOf('target.lost')).toEqual([{ name: 'target.lost', target: 'A/main' }]);
  });

  it('does not include a retired or moved one, even if the program was killed before it recorded that', async () => {
    const { service, mirror, file } = await mirrored(RETIRE_AT_ONCE);
    const before = await readFile(file, 'utf8');
    service.removeRepository(service.named('A'));
    service.renameRepository(service.named('B'), 'Renamed');
    await mirror.pass();
    expect(await lostOf(mirror, before)).toEqual([]);
    await rm(join(mirror.directory, 'history'), { recursive: true });
    expect(await lostOf(mirror, before)).toEqual(['A/main']);
  });
});
