import { readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { describe, expect, it } from 'vitest';

import { settingDescriptors } from '../../../src/config/descriptors.ts';
import { layoutOf } from '../../../src/mirror/store/layout.ts';

const CHAPTER = await readFile(join(import.meta.dirname, '../../../src/manual/several-machines.md'), 'utf8');

/** The texts between backquotes. */
const codeIn = (text: string): string[] => Array.from(text.matchAll(/`([^`]+)`/g), ([, code = '']) => code);

describe('the chapter on several machines', () => {
  it('names all files in the directory that instances share or own', () => {
    const layout = layoutOf('/mirror', { index: 2 });
    const isInternal = (path: string): boolean => path.startsWith(`${layout.internal}/`);
    const paths = Object.values(layout)
      .filter((path) => typeof path === 'string')
      .filter(isInternal)
      .map((path) => relative(layout.internal, path));
    const [, table = ''] = /\| in `\.workbook-mirror\/` \|[^\n]*\n([^]*?)\n\n/.exec(CHAPTER) ?? [];
    const named = table.split('\n').flatMap((row) => codeIn(row.split('|')[1] ?? ''));
    const isNamed = (path: string): boolean =>
      named.some((name) => `${path}/`.startsWith(name) || name.startsWith(`${path}/`));
    expect(paths.filter((path) => !isNamed(path))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
  });

  it('names only existing settings as those that must be the same', () => {
    const [, list = ''] = /\*\*Settings that must be the same for all\*\*: ([^.]*)\./.exec(CHAPTER) ?? [];
    const settings = settingDescriptors.map(({ name }) => name);
    const unknown = codeIn(list).filter((name) =>
      settings.every((setting) => setting !== name && !setting.startsWith(`${name}.`)),
    );
    expect(unknown).toEqual([]);
    expect(codeIn(list)).toEqual(expect.arrayContaining(['publish', 'history', 'readerGrace', 'guard']));
  });
});
