import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { findLeadingFolder } from '../../../../src/mirror/archive/policy.ts';

describe('the folder around an archive', () => {
  it.each<[string, string[], string[], ReturnType<typeof findLeadingFolder>]>([
    ['nothing at all', [], ['a.xlsx'], { kind: 'none' }],
    ['a file at the top', ['a.xlsx', 'f/b.xlsx'], ['f/a.xlsx'], { kind: 'none' }],
    ['a file at the top later', ['f/b.xlsx', 'a.xlsx'], [], { kind: 'none' }],
    ['two folders', ['f/a', 'g/a'], ['a'], { kind: 'none' }],
    ['folders that begin alike', ['f/a', 'ff/a'], ['a'], { kind: 'none' }],
    ['the workbooks below it', ['f/a', 'f/g/b'], ['a', 'g/b'], { kind: 'wrapped', folder: 'f' }],
    ['the workbooks with it', ['f/a', 'f/g/b'], ['f/a'], { kind: 'none' }],
    ['workbooks of other branches alone', ['f/a'], ['elsewhere'], { kind: 'unknown', folder: 'f' }],
    ['no workbooks', ['f/a', 'f/b'], [], { kind: 'unknown', folder: 'f' }],
    ['as much for it as against it', ['f/f/a', 'f/a'], ['f/a'], { kind: 'unknown', folder: 'f' }],
    ['more for it than against it', ['f/f/a', 'f/a', 'f/b'], ['f/a', 'b'], { kind: 'wrapped', folder: 'f' }],
    ['more against it than for it', ['f/f/a', 'f/a', 'f/b'], ['f/a', 'f/b'], { kind: 'none' }],
    ['another Unicode form', ['e\u0301/u\u0308'], ['ü'], { kind: 'wrapped', folder: 'e\u0301' }],
    ['another Unicode form of its own', ['e\u0301/a'], ['é/a'], { kind: 'none' }],
  ])('with %s', (_what, paths, workbooks, found) => {
    expect(findLeadingFolder(paths, workbooks)).toEqual(found);
  });

  it('is found whenever it was put around the listed contents', () => {
    const name = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fc.uniqueArray(path, { minLength: 1 }), fc.nat(), (paths, pick) => {
        const wrapped = paths.map((each) => `around/${each}`);
        const workbook = paths[pick % paths.length] ?? '';
        expect(findLeadingFolder(wrapped, [workbook])).toEqual({ kind: 'wrapped', folder: 'around' });
        expect(findLeadingFolder(paths, [workbook]).kind).not.toBe('wrapped');
      }),
    );
  });
});
