import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { sizeRefusal } from '../../../../src/mirror/archive/limits.ts';
import { Refusals, quoted } from '../../../../src/mirror/archive/refusals.ts';
import { refusalsTogether, type TreeEntry } from '../../../../src/mirror/archive/tree-policy.ts';
import { MirrorError } from '../../../../src/lib/errors/errors.ts';
import { foldName } from '../../../../src/lib/paths/safe-path.ts';
import { DEFAULT_LIMITS } from '../../../support/archive-limits.ts';

/** `f/` is a folder, `@f` is left out, all else is a file. */
function treeEntry(text: string): TreeEntry {
  if (text.startsWith('@')) return { kind: 'skip', path: text.slice(1) };
  return text.endsWith('/') ? { kind: 'folder', path: text.slice(0, -1) } : { kind: 'file', path: text };
}

function judge(texts: readonly string[], limits: Partial<typeof DEFAULT_LIMITS> = {}): string[] {
  const entries = texts.map(treeEntry);
  return [...refusalsTogether(entries, { ...DEFAULT_LIMITS, ...limits })].map(({ message }) => message);
}

describe('the entries of an archive together', () => {
  it.each([
    [[]],
    [['a', 'b', 'f/a', 'f/g/a']],
    [['f', 'ff/a', 'f.x/a']],
    [['f/', 'f/', 'f/a', 'f/g/', 'f/g/h/i']],
    [['@a', 'b', '@c/d', 'c/e']],
    [['straße', 'strase', 'ä', 'a']],
  ])('may be %j', (texts) => {
    expect(judge(texts)).toStrictEqual([]);
  });

  it.each([
    [['a', 'b', 'a'], ['"a" occurs twice']],
    [['@a', 'a'], ['"a" occurs twice']],
    [['f', 'f/a'], ['"f" is a file and a folder at once']],
    [['f/g/h/a', 'f/g'], ['"f/g" is a file and a folder at once']],
    [['f', 'f/'], ['"f" is a file and a folder at once']],
    [['@f', 'f/a'], ['"f/a" leads through "f", which is a link']],
    [['f/a/b', '@f'], ['"f" is a link or a special file, and a folder at once']],
    [['@f', 'f/'], ['"f" is a link or a special file, and a folder at once']],
    [['@f', '@f/a'], ['"f/a" leads through "f", which is a link']],
  ])('may not be %j', (texts, faults) => {
    const messages = judge(texts);
    expect(messages).toHaveLength(faults.length);
    faults.forEach((fault, index) => expect(messages[index]).toContain(fault));
  });

  const twins: readonly (readonly [string[], string, string])[] = [
    [['a', 'A'], 'A', 'a'],
    [['é', 'e\u0301'], 'e\u0301', 'é'],
    [['straße', 'STRASSE'], 'STRASSE', 'straße'],
    [['ΑΣ', 'ας'], 'ας', 'ΑΣ'],
    [['K', '\u212A'], '\u212A', 'K'],
    [['A/x', 'a/y'], 'a', 'A'],
    [['deep/A/x', 'deep/a/y'], 'deep/a', 'deep/A'],
    [['A/', 'a/'], 'a', 'A'],
    [['a', 'A/x'], 'A', 'a'],
    [['@a', 'A/x'], 'A', 'a'],
  ];
  it.each(twins)('may not be %j, unless twins are accepted', (texts, second, first) => {
    expect(judge(texts)).toStrictEqual([
      `The archive's entry ${quoted(second)} differs from ${quoted(first)} only in case or Unicode form.`,
    ]);
    expect(judge(texts, { nameTwins: 'accept' })).toStrictEqual([]);
  });

  it('are as many files and folders as there may be, with folders that are no entries', () => {
    expect(judge(['a/b/c/d'], { maxEntries: 4 })).toStrictEqual([]);
    expect(judge(['a/b/c/d'], { maxEntries: 3 })).toHaveLength(1);
    expect(judge(['a/b', 'a/c', 'a/'], { maxEntries: 3 })).toStrictEqual([]);
  });

  it('do not take memory by the square of the depth of their names', () => {
    const texts = Array.from({ length: 1000 }, (_, index) => `${index}/${'a/'.repeat(1400)}x`);
    const before = process.memoryUsage().heapUsed;
    expect(judge(texts, { maxEntries: 200_000 })).toHaveLength(1);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(200e6);
  });

  it('are refused exactly where a slow reading of the rules refuses them', () => {
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

describe('the sizes that an archive claims', () => {
  const MIB = 1024 * 1024;
  const refusal = (totalBytes: number, archiveBytes: number, limits: Partial<typeof DEFAULT_LIMITS> = {}) =>
    sizeRefusal({ totalBytes, greatest: { name: 'big', sizeBytes: totalBytes } }, archiveBytes, {
      ...DEFAULT_LIMITS,
      ...limits,
    });

  it('are taken up to the limits', () => {
    expect(refusal(0, 22)).toBeNull();
    expect(refusal(256 * MIB, 100)).toBeNull();
    expect(refusal(250 * 2 * MIB, 2 * MIB)).toBeNull();
    expect(refusal(1000, 1000, { maxUnpackedBytes: 1000 })).toBeNull();
  });

  it('are refused above, with the setting that would allow them', () => {
    expect(refusal(256 * MIB + 1, 100)).toMatchObject({
      advice: expect.stringContaining('archive.maxRatio') as unknown,
    });
    expect(refusal(250 * 2 * MIB + 1, 2 * MIB)?.message).toContain('"big"');
    expect(refusal(1001, 1000, { maxUnpackedBytes: 1000 })).toMatchObject({
      message: expect.stringContaining('archive.maxUnpackedSize') as unknown,
    });
    expect(refusal(2 ** 60, 100)).not.toBeNull();
  });
});

describe('refusals', () => {
  function thrown(count: number): MirrorError {
    const refusals = new Refusals();
    for (let index = 0; index < count; index += 1) refusals.add({ message: `Bad ${index}.` });
    try {
      refusals.throwIfAny();
    } catch (error) {
      if (error instanceof MirrorError) return error;
    }
    throw new Error('nothing was thrown');
  }

  it('are named, the first five, and counted', () => {
    expect(thrown(1)).toMatchObject({ code: 'archive.refused', action: 'quarantine', message: 'Bad 0.' });
    expect(thrown(6).message).toBe('Bad 0. Bad 1. Bad 2. Bad 3. Bad 4. So is 1 other.');
    expect(thrown(1000).message).toContain('So are 995 others.');
    expect(() => new Refusals().throwIfAny()).not.toThrow();
  });

  it('show names so that nothing hides in them', () => {
    expect(quoted('a\u202Eb\u200B\u0085\n\u2028"')).toBe('"a\\u{202E}b\\u{200B}\\u{85}\\n\\u{2028}\\""');
    expect(quoted('x'.repeat(70_000)).length).toBeLessThan(250);
  });
});
