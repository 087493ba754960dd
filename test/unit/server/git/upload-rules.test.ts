import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { chooseDefaultBranch } from '../../../../src/server/git/refs.ts';
import { parseFolderRecord } from '../../../../src/server/git/objects.ts';
import {
  authorName,
  branchInTheWay,
  branchNameProblem,
  messageProblem,
  pathProblem,
  wholeMessage,
} from '../../../../src/server/git/upload-rules.ts';

describe('the name of a branch', () => {
  it.each(['main', 'a/b', 'feature/2026-Ü', "it's", 'a.b', 'a@b', 'x'.repeat(250)])('can be %s', (name) => {
    expect(branchNameProblem(name)).toBeNull();
  });

  const bad = ['', '@', 'HEAD', '-x', 'a b', 'a..b', 'a~1', 'a^', 'a:b', 'a?', 'a*', 'a[', 'a\\b', 'a@{1}'];
  bad.push(
    '/a',
    'a/',
    'a//b',
    '.a',
    'a/.b',
    'a.lock',
    'a.lock/b',
    'a.',
    'a\u0000',
    'a\n',
    'a\u007f',
    '\ud800',
  );
  bad.push('x'.repeat(251), 'abc/'.repeat(300) + 'x');
  it.each(bad)('cannot be %j', (name) => {
    expect(branchNameProblem(name)).not.toBeNull();
  });

  it('stands beside others, and never below or above one', () => {
    expect(branchInTheWay('a', ['b', 'ab', 'b/a'])).toBeNull();
    expect(branchInTheWay('a/b', ['x', 'a'])).toBe('a');
    expect(branchInTheWay('a', ['x', 'a/b'])).toBe('a/b');
  });
});

describe('the path of a file', () => {
  it.each([
    'a.xlsx',
    'a/b/c.xlsx',
    '.gitignore',
    '.github/x',
    'Ü ber.xlsx',
    ' a',
    'a.git',
    'x'.repeat(255),
    'a/'.repeat(63) + 'a',
  ])('can be %j', (path) => {
    expect(pathProblem(path)).toBeNull();
  });

  const bad = [
    '',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    'a/../b',
    './a',
    'a\\b',
    'a\u0000b',
    'a\nb',
    'a\u0085b',
    '\udc00',
  ];
  bad.push(
    '.git',
    '.GIT/config',
    'a/.git',
    'git~1',
    '.git.',
    '.git ',
    '.git::$INDEX_ALLOCATION',
    '.g\u200cit',
  );
  bad.push('x'.repeat(256), 'é'.repeat(128), 'abc/'.repeat(300) + 'x', 'a/'.repeat(64) + 'a');
  it.each(bad)('cannot be %j', (path) => {
    expect(pathProblem(path)).not.toBeNull();
  });

  it('leads nowhere else, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (path) => {
        if (pathProblem(path) !== null) return;
        expect(new URL(path.split('/').map(encodeURIComponent).join('/'), 'http://h/r/').pathname).toMatch(
          /^\/r\/./,
        );
        expect(path.split('/').every((segment) => segment !== '' && segment !== '..')).toBe(true);
      }),
    );
  });
});

describe('a commit', () => {
  it('has the message that was written, with a line feed at the end', () => {
    expect(wholeMessage('a')).toBe('a\n');
    expect(wholeMessage(' a\r\n\n')).toBe(' a\r\n\n');
    expect(['', ' \n', 'a\0b', '\ud800', 'x'.repeat(65_537)].map(messageProblem)).not.toContain(null);
    expect(messageProblem('a')).toBeNull();
  });

  it('has an author that Git can keep', () => {
    expect(authorName('Anna Ångström')).toBe('Anna Ångström');
    expect(authorName(' "Anna" <a@b>\n.')).toBe('Anna" a@b');
    expect(['', '...', '<>'].map(authorName)).toEqual(['unknown', 'unknown', 'unknown']);
  });
});

describe('the default branch', () => {
  const choose = (defaultBranch: string | null, ...names: string[]): string | null =>
    chooseDefaultBranch({ defaultBranch, heads: new Map(names.map((name) => [name, 'id'])) });

  it('stays what it is where it exists, and where nothing does', () => {
    expect(choose('main')).toBeNull();
    expect(choose('x', 'main', 'x')).toBeNull();
  });

  it('is otherwise the usual one, or the first', () => {
    expect(choose('main', 'z', 'a')).toBe('a');
    expect(choose(null, 'a', 'master')).toBe('master');
    expect(choose('x', 'a', 'master', 'main')).toBe('main');
  });
});

describe('a record of a folder', () => {
  const id = 'a'.repeat(40);

  it('is a file or a folder, and never a submodule', () => {
    expect(parseFolderRecord(`100644 blob ${id}      12\ta\tb.xlsx`)).toEqual({
      name: 'a\tb.xlsx',
      kind: 'file',
      sizeBytes: 12,
    });
    expect(parseFolderRecord(`040000 tree ${id}       -\tplans`)).toEqual({
      name: 'plans',
      kind: 'folder',
      sizeBytes: 0,
    });
    expect(parseFolderRecord(`160000 commit ${id}       -\tsub`)).toBeNull();
    expect(() => parseFolderRecord('')).toThrow('empty record');
  });
});
