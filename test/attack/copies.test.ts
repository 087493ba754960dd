import { lstat, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { copyFolder, copyKilled } from './copies.ts';

let root = '';
let [from, to] = ['', ''];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'workbook-mirror-copies-'));
  [from, to] = [join(root, 'from'), join(root, 'to')];
  for (const stage of ['whole', 'cut']) await mkdir(join(from, stage), { recursive: true });
});

afterEach(() => rm(root, { recursive: true }));

describe('a copy of a directory whose program was killed', () => {
  it('has journals that know the copied files', async () => {
    await writeFile(join(from, 'whole/manifest.json'), '{}');
    const { ino } = await lstat(join(from, 'whole/manifest.json'));
    await writeFile(join(from, 'whole/journal.json'), JSON.stringify({ inode: ino, other: ino }));
    await copyKilled(from, to);
    const copied = await lstat(join(to, 'whole/manifest.json'));
    expect(JSON.parse(await readFile(join(to, 'whole/journal.json'), 'utf8'))).toEqual({
      inode: copied.ino,
      other: ino,
    });
  });

  it.each(['', '{"targets":'])('has journals that were cut off as they are: %j', async (text) => {
    await writeFile(join(from, 'cut/journal.json'), text);
    await copyKilled(from, to);
    expect(await readFile(join(to, 'cut/journal.json'), 'utf8')).toBe(text);
  });
});

describe('a copy of a folder', () => {
  it('goes nowhere where something is', async () => {
    await mkdir(to);
    expect(() => copyFolder(from, to)).toThrow('is there');
  });
});
