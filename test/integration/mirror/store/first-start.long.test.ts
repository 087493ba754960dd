import { mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { beforeEach, describe, expect, it } from 'vitest';

import { startCommands } from '../../../support/mirror-commands.ts';
import { openTestStore } from '../../../support/published.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

async function open(directory: string, adopt = false): Promise<void> {
  const store = await openTestStore(directory, { adopt });
  await store.lock.release();
}

describe('a first start', () => {
  let folder: string;

  beforeEach(async () => {
    folder = await temporaryFolder();
  });

  /** Expects that a mirror is refused in a folder, and that nothing of it changes. */
  async function expectRefused(directory: string, why: string, adopt = false): Promise<void> {
    const before = await readdir(directory, { recursive: true });
    await expect(open(directory, adopt)).rejects.toMatchObject({
      code: 'directory.unusable',
      message: expect.stringContaining(why) as string,
    });
    expect(await readdir(directory, { recursive: true })).toEqual(before);
  }

  it('is refused next to other data, which is named, until it is confirmed', async () => {
    for (const name of ['letters', 'Budget.xlsx', '.profile', 'a', 'b', 'c', 'd'])
      await writeFile(join(folder, name), '');
    await expectRefused(folder, '".profile", "Budget.xlsx", "a", "b", "c" and 2 more');
    await open(folder, true);
    expect(await readdir(folder)).toEqual(expect.arrayContaining(['letters', 'mirror', 'manifests']));
    await open(folder);
  });

  it.each(['mirror', 'manifests', 'history'])(
    'does not treat a folder named %s as a mirror',
    async (name) => {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'deployment.yaml'), '');
      await expectRefused(folder, JSON.stringify(name));
    },
  );

  it('accepts an empty folder, one with files of the file system, and a missing one', async () => {
    await mkdir(join(folder, 'volume/lost+found'), { recursive: true });
    for (const name of ['', 'volume', 'new/below/it']) {
      const directory = name === '' ? await temporaryFolder() : join(folder, name);
      await open(directory);
      await open(directory);
    }
  });

  it('accepts a mirror restored without its private folder, and an unfinished one', async () => {
    await open(folder);
    await rm(join(folder, '.workbook-mirror'), { recursive: true });
    await open(folder);
    const begun = await temporaryFolder();
    await mkdir(join(begun, '.workbook-mirror'));
    await writeFile(join(begun, 'notes.txt'), '');
    await open(begun);
  });

  it('is refused inside another mirror, even through a link', async () => {
    await open(join(folder, 'outer'));
    const inner = join(folder, 'outer/mirror/Accounting');
    await mkdir(inner);
    await expectRefused(inner, 'inside another mirror');
    await expectRefused(inner, 'inside another mirror', true);
    await symlink(inner, join(folder, 'link'));
    await expectRefused(join(folder, 'link'), 'inside another mirror');
    await expect(open(join(inner, 'not/there/yet'))).rejects.toThrow('inside another mirror');
  });
});

describe('the commands', () => {
  it('suggest the line for a mirror next to other data, which works when copied', async () => {
    const { service, directory, run } = await startCommands();
    service.addRepository('Accounting', { 'a.xlsx': 'a' });
    await mkdir(directory);
    await writeFile(join(directory, "Anna's notes"), '');
    const refused = await run('sync');
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain('"Anna\'s notes"');
    expect(refused.stderr).toContain(`run once: \`workbook-mirror sync --adopt --directory ${directory}\`.`);
    expect(await readdir(directory)).toEqual(["Anna's notes"]);
    expect((await run('sync', '--adopt', '--directory', directory)).exitCode).toBe(0);
    expect((await run('sync')).exitCode).toBe(0);
  });

  it('do not change a folder without a mirror', async () => {
    const { directory, run } = await startCommands();
    await mkdir(directory);
    await writeFile(join(directory, 'notes.txt'), '');
    for (const line of [['verify', '--repair'], ['approve', '--all'], ['retry', '--all'], ['status']])
      await run(...line);
    expect(await readdir(directory)).toEqual(['notes.txt']);
  });
});
