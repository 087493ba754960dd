import type * as FileSystem from 'node:fs';
import { chmod, mkdir, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';

import { type FileFacts, identify, linkAll } from '../../../../src/mirror/file-work/trees.ts';
import { temporaryFolder } from '../../../support/temporary.ts';

const fault = vi.hoisted(() => ({ code: 'EPERM' }));

vi.mock('node:fs', async (importOriginal) => ({
  ...(await importOriginal<typeof FileSystem>()),
  linkSync: () => {
    throw Object.assign(new Error(`${fault.code}: no links here`), { code: fault.code });
  },
}));

/** Links a file of one folder into another one. @returns the copy that is made instead */
async function linked(make: (path: string) => Promise<void>): Promise<string> {
  const folder = await temporaryFolder();
  const [from, to] = [join(folder, 'from'), join(folder, 'to')];
  for (const each of [join(from, 'sub'), to]) await mkdir(each, { recursive: true });
  await make(join(from, 'sub/a.xlsx'));
  linkAll({ from, to, paths: ['sub/a.xlsx'], facts: null });
  return join(to, 'sub/a.xlsx');
}

async function makeFile(path: string): Promise<void> {
  await writeFile(path, 'text');
  await utimes(path, 1000, 1000);
}

describe('linking the files of a tree', () => {
  it.each(['EPERM', 'ENOTSUP', 'EMLINK', 'EXDEV'])(
    'copies them, with their times, if the file system answers %s to link(2)',
    async (code) => {
      fault.code = code;
      const copy = await linked(makeFile);
      expect(await readFile(copy, 'utf8')).toBe('text');
      expect((await stat(copy)).mtimeMs).toBe(1_000_000);
    },
  );

  it('fails for any other reason, and without a file to copy', async () => {
    fault.code = 'EIO';
    await expect(linked(makeFile)).rejects.toThrow('EIO');
    fault.code = 'EPERM';
    await expect(linked((path) => symlink('elsewhere', path))).rejects.toThrow('EPERM');
  });
});

it('linking names the first file whose size, permissions or time is another than it should be', async () => {
  fault.code = 'EPERM';
  const from = await temporaryFolder();
  const paths = ['a.xlsx', 'b.xlsx'];
  for (const path of paths) {
    await makeFile(join(from, path));
    await chmod(join(from, path), 0o640);
  }
  const right = { sizesBytes: [4, 4], modes: [0o640, 0o640], mtimesMs: [1_000_000, 1_000_000] };
  const link = async (facts: FileFacts): Promise<string | null> =>
    linkAll({ from, to: await temporaryFolder(), paths, facts });
  expect(await link(right)).toBeNull();
  expect(await link({ ...right, sizesBytes: [4, 5] })).toBe('b.xlsx');
  expect(await link({ ...right, sizesBytes: [5, 5] })).toBe('a.xlsx');
  expect(await link({ ...right, modes: [0o640, 0o600] })).toBe('b.xlsx');
  expect(await link({ ...right, mtimesMs: [1_000_000, 1_000_001] })).toBe('b.xlsx');
});

it('the digest of a tree is the same for an unchanged tree, and differs after a change at any depth', async () => {
  const tree = await temporaryFolder();
  await mkdir(join(tree, 'sub/deep'), { recursive: true });
  const file = join(tree, 'sub/deep/a.xlsx');
  await makeFile(file);
  const before = identify(tree);
  expect(identify(tree)).toBe(before);
  await writeFile(file, 'other');
  await utimes(file, 1000, 1000);
  const changed = identify(tree);
  expect(changed).not.toBe(before);
  await makeFile(join(tree, 'sub/b.xlsx'));
  expect(identify(tree)).not.toBe(changed);
});

it('the digest of a tree follows no link to a folder, which may lead anywhere', async () => {
  const [tree, elsewhere] = [await temporaryFolder(), await temporaryFolder()];
  await symlink(elsewhere, join(tree, 'link'));
  const before = identify(tree);
  await makeFile(join(elsewhere, 'a.xlsx'));
  expect(identify(tree)).toBe(before);
});
