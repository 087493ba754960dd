import { stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { expect, it } from 'vitest';

import { makeFolders } from '../../../../src/lib/disk/durable.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

it('makes a folder with its parents, and names those that are new', async () => {
  const root = await temporaryFolder();
  const path = join(root, 'a/b');
  expect(await makeFolders(path)).toEqual([join(root, 'a'), path]);
  expect((await stat(path)).isDirectory()).toBe(true);
  expect(await makeFolders(path)).toEqual([]);
});

it('comes to an end where something else stands there, be it a link that leads nowhere', async () => {
  const root = await temporaryFolder();
  const [file, link] = [join(root, 'file'), join(root, 'link')];
  await writeFile(file, '');
  await symlink(join(root, 'nothing'), link);
  for (const path of [file, link]) await expect(makeFolders(path)).rejects.toMatchObject({ code: 'EEXIST' });
});
