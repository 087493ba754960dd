import { mkdir, open, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { makeFolders, setTimeApart, writeNewFile } from '../../../../src/lib/disk/durable.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('a new file is flushed, and never replaces another one', async () => {
  const path = join(await temporaryFolder(), 'new');
  await using probe = await open('/dev/null');
  const sync = vi.spyOn(Object.getPrototypeOf(probe) as typeof probe, 'sync');
  await writeNewFile(path, ['one ', 'text']);
  expect(sync).toHaveBeenCalledOnce();
  await expect(writeNewFile(path, 'other')).rejects.toMatchObject({ code: 'EEXIST' });
  expect(await readFile(path, 'utf8')).toBe('one text');
});

it.each([
  ['of the same size and second has the next second', 'same', 1000, 1001],
  ['of the same size and a later second keeps it', 'same', 1005, 1005],
  ['of another size keeps its time', 'longer', 1000, 1000],
])('a file that replaces another one %s', async (_what, text, madeAt, expected) => {
  const folder = await temporaryFolder();
  const [path, replaced] = [join(folder, 'new'), join(folder, 'old')];
  await writeFile(replaced, 'text');
  await utimes(replaced, 1000, 1000);
  await writeFile(path, text);
  await utimes(path, madeAt, madeAt);
  await setTimeApart(path, replaced);
  expect((await stat(path)).mtimeMs).toBe(expected * 1000);
});

describe('folders', () => {
  it('are made with their parents, and listed from the top', async () => {
    const root = await temporaryFolder();
    await mkdir(join(root, 'a'));
    expect(await makeFolders(join(root, 'a/b/c'))).toEqual([join(root, 'a/b'), join(root, 'a/b/c')]);
    expect(await makeFolders(join(root, 'a/b/c'))).toEqual([]);
  });

  it('are not made below a file', async () => {
    const root = await temporaryFolder();
    await writeFile(join(root, 'file'), '');
    await expect(makeFolders(join(root, 'file/below'))).rejects.toMatchObject({ code: 'ENOTDIR' });
  });

  it('are not made if something else exists there, even a dangling link', async () => {
    const root = await temporaryFolder();
    const [file, link] = [join(root, 'file'), join(root, 'link')];
    await writeFile(file, '');
    await symlink(join(root, 'nothing'), link);
    for (const path of [file, link])
      await expect(makeFolders(path)).rejects.toMatchObject({ code: 'EEXIST' });
  });
});
