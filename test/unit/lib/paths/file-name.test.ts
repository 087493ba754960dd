import * as fc from 'fast-check';
import { expect, it } from 'vitest';

import { nameFault } from '../../../../src/lib/paths/file-name.ts';

const piece = fc.oneof(
  fc.constantFrom(
    '/',
    '//',
    '.',
    '..',
    '/../',
    './',
    'C:',
    ' ',
    '\\',
    '\0',
    '\x7f',
    'x'.repeat(255),
    'x'.repeat(256),
  ),
  fc.string({ unit: 'binary-ascii', maxLength: 5 }),
);
const asciiPath = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));

it('a plain ASCII path has the same fault below a folder with other letters', () => {
  fc.assert(
    fc.property(asciiPath, (path) => {
      // Below a folder there are no absolute paths and no drives, and an empty name is a folder without one.
      fc.pre(path !== '' && !path.startsWith('/') && !/^[A-Za-z]:(?:\/|$)/.test(path) && path.length < 2900);
      expect(nameFault(path)).toBe(nameFault(`é/${path}`));
    }),
    { numRuns: 2000 },
  );
});

it.each([
  ['', 'has no name'],
  ['/a', 'has an absolute path'],
  ['C:', 'has a drive in its name'],
  ['c:/a', 'has a drive in its name'],
  ['C:a', null],
  ['.a/..b/...', null],
  ['a/', 'has an empty folder name'],
])('the fault of %j is %j', (path, fault) => {
  expect(nameFault(path)).toBe(fault);
});
