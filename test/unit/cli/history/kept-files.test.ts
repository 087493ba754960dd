import { describe, expect, it } from 'vitest';

import { chooseFiles } from '../../../../src/cli/history/kept-files.ts';
import type { ManifestFile } from '../../../../src/mirror/store/manifest.ts';
import { manifestFile } from '../../../support/builders.ts';

function tree(...paths: readonly string[]): ManifestFile[] {
  return paths.map((path) => manifestFile(path));
}

function chosen(files: readonly ManifestFile[], ...paths: readonly string[]): unknown {
  const found = chooseFiles(files, paths);
  return found?.map(({ path }) => path) ?? null;
}

const NFC = 'Bücher.xlsx'.normalize('NFC');
const NFD = 'Bücher.xlsx'.normalize('NFD');

describe('the files that a path means', () => {
  const files = tree('plan.xlsx', 'Q1/plan.xlsx', 'Q1/deep/notes.txt', 'Q10/plan.xlsx');

  it('are the file at the path, or all files below the folder', () => {
    expect(chosen(files, 'plan.xlsx')).toEqual(['plan.xlsx']);
    expect(chosen(files, 'Q1/plan.xlsx')).toEqual(['Q1/plan.xlsx']);
    expect(chosen(files, 'Q1')).toEqual(['Q1/plan.xlsx', 'Q1/deep/notes.txt']);
    expect(chosen(files, 'Q1/deep')).toEqual(['Q1/deep/notes.txt']);
  });

  it.each(['', '.', 'Q', 'Q1/', '/plan.xlsx', 'PLAN.xlsx', 'plan', '../main/plan.xlsx', '*.xlsx'])(
    'do not exist for %j',
    (path) => {
      expect(chosen(files, path)).toBeNull();
    },
  );

  it('belong to the first reading that matches', () => {
    expect(chosen(files, 'mirror/A/main/Q1', 'Q1/deep')).toEqual(['Q1/deep/notes.txt']);
    expect(chosen(tree('mirror/a', 'a'), 'mirror/a', 'a')).toEqual(['mirror/a']);
  });

  it('are found in another Unicode form if only one matches', () => {
    expect(chosen(tree(NFD), NFC)).toEqual([NFD]);
    expect(chosen(tree(NFD, NFC), NFC)).toEqual([NFC]);
    expect(chosen(tree(NFD, NFC), NFD)).toEqual([NFD]);
  });
});
