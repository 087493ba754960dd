import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  cleanFolder,
  crumbsOf,
  defaultMessage,
  filesText,
  gitAddress,
  joinPath,
  readPlace,
  sortEntries,
  writePlace,
} from '../../../../../src/server/uploads/page/format.js';

describe('the page for uploads', () => {
  it('proposes a message', () => {
    expect(defaultMessage([])).toBe('');
    expect(defaultMessage(['a.xlsx'])).toBe('Upload a.xlsx');
    expect(defaultMessage(['a.xlsx', 'b.xlsx'])).toBe('Upload a.xlsx and b.xlsx');
    expect(defaultMessage(['a', 'b', 'c'])).toBe('Upload a and 2 other files');
    expect(defaultMessage(['a\u202eb.xlsx'])).toBe(String.raw`Upload a\u202eb.xlsx`);
    expect([filesText(1), filesText(2)]).toEqual(['1 file', '2 files']);
  });

  it('reads a folder as people write it', () => {
    expect(cleanFolder(' /plans// 2026 /')).toBe('plans/2026');
    expect(cleanFolder('plans\\2026')).toBe('plans/2026');
    expect(cleanFolder(' / ')).toBe('');
    expect(joinPath('a', '', 'b/c')).toBe('a/b/c');
  });

  it('keeps a place in its address', () => {
    fc.assert(
      fc.property(fc.string(), fc.option(fc.string()), fc.string(), (repositoryId, branch, path) => {
        const place = { repositoryId, branch, path };
        expect(readPlace(writePlace(place))).toEqual(place);
      }),
    );
    expect(readPlace('')).toEqual({ repositoryId: '', branch: null, path: '' });
  });

  it('shows the way to a folder', () => {
    expect(crumbsOf('')).toEqual([]);
    expect(crumbsOf('a/b')).toEqual([
      { name: 'a', path: 'a' },
      { name: 'b', path: 'a/b' },
    ]);
  });

  it('gives the address for Git', () => {
    const own = (full_name: string): { id: string; full_name: string; url: null } => ({
      id: 'the-id',
      full_name,
      url: null,
    });
    const external = { id: 'the-id', full_name: 'g.com/a/b.git', url: 'https://g.com/a/b.git' };
    expect(gitAddress('http://h/', own('Sales Europe'))).toBe('http://h/git/Sales%20Europe.git');
    expect(gitAddress('http://h/x/', external)).toBe('http://h/x/git/g.com/a/b.git');
    // The address of `Plans` would be the same.
    expect(gitAddress('http://h/', own('Plans.git'))).toBe('http://h/git/the-id.git');
    expect(gitAddress('http://h/', own('Plans.GIT'))).toBe('http://h/git/the-id.git');
  });

  it('sorts folders first, and numbers as numbers', () => {
    const entry = (kind: string, name: string): { kind: string; name: string } => ({ kind, name });
    const sorted = sortEntries([
      entry('file', '10'),
      entry('file', '9'),
      entry('folder', 'z'),
      entry('folder', 'a'),
    ]);
    expect(sorted.map(({ name }) => name)).toEqual(['a', 'z', '9', '10']);
  });
});
