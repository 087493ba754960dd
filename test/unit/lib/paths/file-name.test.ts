import { posix } from 'node:path';

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
  ['..', 'leads to another folder'],
  ['a/../b', 'leads to another folder'],
  ['a/./b', 'leads to another folder'],
  ['a/', 'has an empty folder name'],
  ['a\\b', 'has a backslash in its name'],
  ['C:', 'has a drive in its name'],
  ['c:/a', 'has a drive in its name'],
  ['C:a', null],
  ['.a/..b/...', null],
  ['a\nb', 'has a control character in its name'],
  ['a\u0085', 'has a control character in its name'],
  ['a\uD800b', 'has a name that is not Unicode'],
  ['x'.repeat(255), null],
  ['x'.repeat(256), 'has a name of more than 255 bytes'],
  [`a/${'表'.repeat(86)}`, 'has a name of more than 255 bytes'],
])('the fault of %j is %j', (path, fault) => {
  expect(nameFault(path)).toBe(fault);
});

it('a path is too long if no system takes it', () => {
  expect(nameFault(Array.from({ length: 25 }, () => 'x'.repeat(200)).join('/'))).not.toBeNull();
});

it('a path without a fault never leaves the tree', () => {
  const part = fc.constantFrom('a', '..', '.', '', '/', '\\', 'C:', '\u0000', ' ', '%2e');
  const name = fc.oneof(
    fc.array(part, { maxLength: 6 }).map((parts) => parts.join('/')),
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
