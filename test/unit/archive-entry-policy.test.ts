import * as fc from 'fast-check';
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';

import { checkTogether, judgeEntry, nameFault, type RawEntry } from '../../src/archive/entry-policy.ts';
import { MirrorError } from '../../src/model/errors.ts';

function entry(fields: Partial<RawEntry> = {}): RawEntry {
  return { name: 'a.xlsx', unixMode: 0, isEncrypted: false, compressionMethod: 8, ...fields };
}

function refusal(work: () => unknown): MirrorError {
  try {
    work();
  } catch (error) {
    if (error instanceof MirrorError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

describe('an entry of an archive', () => {
  it.each([
    'a.xlsx',
    'folder/a.xlsx',
    'a/b/c/d/e',
    '.gitignore',
    '..a/...b',
    'a b/ c ',
    'trailing.',
    'con/nul.txt',
    'what?*"<>|.xlsx',
    'a:b',
    '~/.ssh',
    '-rf',
    '%2e%2e/x',
    'Übersicht/e\u0301/表/😀.xlsx',
    '\u202egpj.xlsx',
    `${'x'.repeat(255)}/a`,
  ])('named %j is a file', (name) => {
    expect(judgeEntry(entry({ name }))).toEqual({ kind: 'file', path: name });
  });

  it.each([
    ['', 'no name'],
    ['/', 'no name'],
    ['/etc/passwd', 'absolute'],
    ['//host/share', 'absolute'],
    ['..', 'another folder'],
    ['../a', 'another folder'],
    ['a/../../b', 'another folder'],
    ['a/..', 'another folder'],
    ['a/../', 'another folder'],
    ['./a', 'another folder'],
    ['a/./b', 'another folder'],
    ['.', 'another folder'],
    ['./', 'another folder'],
    ['a//b', 'empty folder name'],
    ['a//', 'empty folder name'],
    ['..\\a', 'backslash'],
    ['a\\b', 'backslash'],
    ['C:/Windows', 'drive'],
    ['c:', 'drive'],
    ['a\u0000.xlsx', 'control character'],
    ['a\nb', 'control character'],
    ['\u001b[2J', 'control character'],
    ['a\u0085', 'control character'],
    ['a\u007f', 'control character'],
    ['a\uFFFDb', 'cannot be decoded'],
    ['x'.repeat(256), '255 bytes'],
    [`a/${'表'.repeat(86)}`, '255 bytes'],
  ])('named %j is refused: it has or leads to %s', (name, fault) => {
    const error = refusal(() => judgeEntry(entry({ name })));
    expect(error).toMatchObject({ code: 'archive.refused', action: 'quarantine' });
    expect(error.message).toContain(fault);
    expect(error.message).toContain(JSON.stringify(name));
  });

  it.each(['..', '/etc/passwd', 'a\\b'])('named %j is refused even if it would be left out', (name) => {
    expect(refusal(() => judgeEntry(entry({ name, unixMode: 0o120777 }))).code).toBe('archive.refused');
    expect(refusal(() => judgeEntry(entry({ name: `${name}/` }))).code).toBe('archive.refused');
  });

  it.each([
    ['a regular file', 0o100644, 'a', { kind: 'file', path: 'a' }],
    ['permissions alone', 0o755, 'a', { kind: 'file', path: 'a' }],
    ['a folder by its name', 0, 'a/', { kind: 'folder', path: 'a' }],
    ['a folder by its mode', 0o040755, 'a', { kind: 'folder', path: 'a' }],
    ['a folder by both', 0o040755, 'a/b/', { kind: 'folder', path: 'a/b' }],
    ['a symbolic link', 0o120777, 'a', { kind: 'skip', reason: 'symbolic-link' }],
    ['a pipe', 0o010644, 'a', { kind: 'skip', reason: 'special-file' }],
    ['a character device', 0o020644, 'a', { kind: 'skip', reason: 'special-file' }],
    ['a block device', 0o060644, 'a', { kind: 'skip', reason: 'special-file' }],
    ['a socket', 0o140644, 'a', { kind: 'skip', reason: 'special-file' }],
    ['a setuid file, which becomes a plain one', 0o104755, 'a', { kind: 'file', path: 'a' }],
  ])('with the mode of %s', (_what, unixMode, name, verdict) => {
    expect(judgeEntry(entry({ name, unixMode }))).toEqual(verdict);
  });

  it('is refused when its whole path is longer than any system takes', () => {
    expect(nameFault(Array.from({ length: 25 }, () => 'x'.repeat(200)).join('/'))).not.toBeNull();
  });

  it('is refused when it cannot be read', () => {
    expect(refusal(() => judgeEntry(entry({ isEncrypted: true }))).message).toContain('encrypted');
    expect(refusal(() => judgeEntry(entry({ compressionMethod: 12 }))).message).toContain('method 12');
    expect(judgeEntry(entry({ compressionMethod: 0 })).kind).toBe('file');
  });

  it('that is left out or a folder need not be readable', () => {
    const unreadable = { isEncrypted: true, compressionMethod: 99 };
    expect(judgeEntry(entry({ ...unreadable, name: 'a/' })).kind).toBe('folder');
    expect(judgeEntry(entry({ ...unreadable, unixMode: 0o120777 })).kind).toBe('skip');
  });

  it('never leaves the tree: whatever is accepted lies where its name says', () => {
    const piece = fc.constantFrom('a', '..', '.', '', '/', '\\', 'C:', '\u0000', ' ', '%2e');
    const name = fc.oneof(
      fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join('/')),
      fc.string({ unit: 'binary' }),
    );
    fc.assert(
      fc.property(name, (text) => {
        if (nameFault(text) !== null) return;
        expect(posix.join('/root/tree', text)).toBe(`/root/tree/${text}`);
        expect(posix.normalize(text)).toBe(text);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('the files of an archive together', () => {
  it.each([[[]], [['a', 'b', 'f/a', 'f/g/a']], [['a', 'A']], [['é', 'e\u0301']], [['f', 'ff/a', 'f.x/a']]])(
    'may be %j',
    (paths) => {
      expect(() => checkTogether(paths)).not.toThrow();
    },
  );

  it.each([
    [['a', 'b', 'a'], 'occurs twice'],
    [['f', 'f/a'], 'a file and a folder at once'],
    [['f/g/h/a', 'f/g'], 'a file and a folder at once'],
  ])('may not be %j', (paths, fault) => {
    const error = refusal(() => checkTogether(paths));
    expect(error).toMatchObject({ code: 'archive.refused' });
    expect(error.message).toContain(fault);
  });
});
