import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { foldName } from '../../../../src/lib/paths/safe-path.ts';
import {
  judgeEntry,
  quoted,
  type RawEntry,
  refusalTogether,
  type TreeEntry,
} from '../../../../src/mirror/archive/policy.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';

const PLAIN = {
  name: 'a.xlsx',
  isDecodable: true,
  unixMode: 0,
  flags: 0,
  compressionMethod: 8,
  sizeBytes: 0,
};

function entry(fields: Partial<RawEntry> = {}): RawEntry {
  return { ...PLAIN, ...fields };
}

function faultOf(fields: Partial<RawEntry>): string | null {
  const verdict = judgeEntry(entry(fields));
  return verdict.kind === 'refuse' ? verdict.fault : null;
}

describe('an entry of an archive', () => {
  it.each([
    'a.xlsx',
    'a/b/c/d/e',
    '..a/...b',
    'a b/ c ',
    'con/nul.txt',
    'what?*"<>|.xlsx',
    '%2e%2e/x',
    'Übersicht/e\u0301/表/😀.xlsx',
    '\u202egpj.xlsx',
  ])('named %j is a file', (name) => {
    expect(judgeEntry(entry({ name }))).toEqual({ kind: 'file', path: name });
  });

  it.each([
    ['./a', 'file', 'a'],
    ['a/././b./c', 'file', 'a/b./c'],
    ['./', 'folder', ''],
    ['a/./', 'folder', 'a'],
  ])('named %j is the %s %j', (name, kind, path) => {
    expect(judgeEntry(entry({ name }))).toEqual({ kind, path });
  });

  it.each([
    ['a pipe', 0o010644, 1, 'has content'],
    ['a device', 0o020644, 10, 'has content'],
    ['a link', 0o120777, 4097, 'more than 4096 bytes'],
  ])('that says it is %s (mode %i) and has %i bytes: %s', (_kind, unixMode, sizeBytes, fault) => {
    expect(faultOf({ unixMode, sizeBytes })).toContain(fault);
  });

  it('may be a link of 4096 bytes', () => {
    expect(faultOf({ unixMode: 0o120777, sizeBytes: 4096 })).toBeNull();
  });

  it.each([
    ['a regular file', 0o100644, 'a', { kind: 'file', path: 'a' }],
    ['permissions alone', 0o755, 'a', { kind: 'file', path: 'a' }],
    ['a folder by its name', 0, 'a/', { kind: 'folder', path: 'a' }],
    ['a folder by its mode', 0o040755, 'a', { kind: 'folder', path: 'a' }],
    ['a symbolic link', 0o120777, 'a', { kind: 'skip', path: 'a', reason: 'symbolic-link' }],
    ['a pipe', 0o010644, 'a', { kind: 'skip', path: 'a', reason: 'special-file' }],
    ['a socket', 0o140644, 'a', { kind: 'skip', path: 'a', reason: 'special-file' }],
    ['a setuid file, which becomes a plain one', 0o104755, 'a', { kind: 'file', path: 'a' }],
  ])('with the mode of %s', (_what, unixMode, name, verdict) => {
    expect(judgeEntry(entry({ name, unixMode }))).toEqual(verdict);
  });

  it('is a file for all other flags, and is read by two methods only', () => {
    for (const flags of [0, 0x2, 0x4, 0x8, 0x800, 0x80e]) expect(faultOf({ flags })).toBeNull();
    for (let compressionMethod = 0; compressionMethod < 100; compressionMethod += 1) {
      const isKnown = compressionMethod === 0 || compressionMethod === 8;
      expect(faultOf({ compressionMethod }) === null).toBe(isKnown);
    }
  });

  it('may be packed in any way if omitted or a folder, but a folder has no content', () => {
    expect(judgeEntry(entry({ compressionMethod: 99, name: 'a/' })).kind).toBe('folder');
    expect(judgeEntry(entry({ compressionMethod: 99, unixMode: 0o120777 })).kind).toBe('skip');
    expect(faultOf({ name: 'a/', sizeBytes: 1 })).toContain('has content');
    expect(faultOf({ unixMode: 0o040755, sizeBytes: 1 })).toContain('has content');
  });
});

/** `f/` is a folder, `@f` is left out, all else is a file. */
function treeEntry(text: string): TreeEntry {
  if (text.startsWith('@')) return { kind: 'skip', path: text.slice(1) };
  return text.endsWith('/') ? { kind: 'folder', path: text.slice(0, -1) } : { kind: 'file', path: text };
}

function judge(texts: readonly string[], limits: Partial<typeof DEFAULT_LIMITS> = {}): string[] {
  const entries = texts.map(treeEntry);
  const refusal = refusalTogether(entries, { ...DEFAULT_LIMITS, ...limits });
  return refusal === null ? [] : [refusal.message];
}

describe('the entries of an archive together', () => {
  it.each([
    [['a', 'b', 'a'], '"a" occurs twice'],
    [['@a', 'a'], '"a" occurs twice'],
    [['f/g/h/a', 'f/g'], '"f/g" is a file and a folder at once'],
    [['@f', 'f/a'], '"f/a" leads through "f", which is a link'],
    [['f/a/b', '@f'], '"f" is a link or a special file, and a folder at once'],
  ])('may not be %j: %s', (texts, fault) => {
    expect(judge(texts)).toEqual([expect.stringContaining(fault)]);
  });

  const twins: readonly (readonly [string[], string, string])[] = [
    [['a', 'A'], 'A', 'a'],
    [['ΑΣ', 'ας'], 'ας', 'ΑΣ'],
    [['deep/A/x', 'deep/a/y'], 'deep/a', 'deep/A'],
    [['@a', 'A/x'], 'A', 'a'],
  ];
  it.each(twins)('may not be %j, unless duplicates are accepted', (texts, second, first) => {
    expect(judge(texts)).toStrictEqual([
      `The archive's entry ${quoted(second)} differs from ${quoted(first)} only in case or Unicode form.`,
    ]);
    expect(judge(texts, { nameTwins: 'accept' })).toStrictEqual([]);
  });

  it('stay within the limit of files and folders, including folders without an entry', () => {
    expect(judge(['a/b/c/d'], { maxEntries: 4 })).toStrictEqual([]);
    expect(judge(['a/b/c/d'], { maxEntries: 3 })).toHaveLength(1);
    expect(judge(['a/b', 'a/c', 'a/'], { maxEntries: 3 })).toStrictEqual([]);
  });

  it('do not use memory by the square of the depth of their names', () => {
    const texts = Array.from({ length: 1000 }, (_, index) => `${index}/${'a/'.repeat(1400)}x`);
    const before = process.memoryUsage().heapUsed;
    expect(judge(texts, { maxEntries: 200_000 })).toHaveLength(1);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200e6);
  });

  it('are refused exactly if a slow version of the rules refuses them', () => {
    const segment = fc.constantFrom('a', 'A', 'b', 'é', 'e\u0301');
    const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => segments.join('/'));
    const text = fc.oneof(
      path,
      path.map((name) => `${name}/`),
      path.map((name) => `@${name}`),
    );
    fc.assert(
      fc.property(
        fc.array(text, { maxLength: 6 }),
        fc.constantFrom('refuse', 'accept'),
        (texts, nameTwins) => {
          const isRefused = judge(texts, { nameTwins }).length > 0;
          expect(isRefused).toBe(isBad(texts.map(treeEntry), nameTwins));
        },
      ),
      { numRuns: 3000 },
    );
  });
});

function isBad(entries: readonly TreeEntry[], nameTwins: 'refuse' | 'accept'): boolean {
  const leaves = entries.filter(({ kind }) => kind !== 'folder').map(({ path }) => path);
  const folders = new Set(
    entries.flatMap(({ kind, path }) => {
      const segments = path.split('/');
      const depth = kind === 'folder' ? segments.length : segments.length - 1;
      return Array.from({ length: depth }, (_, index) => segments.slice(0, index + 1).join('/'));
    }),
  );
  if (new Set(leaves).size < leaves.length || leaves.some((path) => folders.has(path))) return true;
  const all = [...leaves, ...folders];
  return nameTwins === 'refuse' && new Set(all.map(foldName)).size < all.length;
}

it('a message shows every character of a name', () => {
  expect(quoted('a\u202Eb\u200B\u0085\n\u2028"')).toBe('"a\\u{202E}b\\u{200B}\\u{85}\\n\\u{2028}\\""');
  expect(quoted('x'.repeat(70_000)).length).toBeLessThan(250);
});
