import { expect, it } from 'vitest';

import { isExpectedFile } from '../../../../src/mirror/upstream/contents.ts';
import { buildZip } from '../../../support/zip-builder.ts';

const zipOf = (name: string): Buffer => buildZip([{ name, data: 'content' }]);

const COMPOUND = Buffer.from('d0cf11e0a1b11ae1000000', 'hex');

function isExpected(start: Buffer, expected: Parameters<typeof isExpectedFile>[1]): boolean {
  return isExpectedFile({ sizeBytes: start.length, sha256: 'ab', start }, expected);
}

it('a workbook with a known digest is the file with that digest and size, with any content, and no other', () => {
  const page = Buffer.from('<!doctype html>');
  expect(isExpected(page, { sha256: 'AB' })).toBe(true);
  expect(isExpected(page, { sha256: 'ab', sizeBytes: 15 })).toBe(true);
  const workbook = zipOf('[Content_Types].xml');
  for (const other of [{ sha256: 'cd' }, { sha256: 'ab', sizeBytes: 1 }, { sizeBytes: 1 }])
    expect(isExpected(workbook, other)).toBe(false);
});

it.each<[string, Buffer, boolean]>([
  ['a new workbook', zipOf('[Content_Types].xml'), true],
  ['one by another program', zipOf('docProps/app.xml'), true],
  ['an OpenDocument one', zipOf('mimetype'), true],
  ['an old one, or one with a password', COMPOUND, true],
  ['a login page', Buffer.from('\n<!DOCTYPE html><html>'), false],
  ['nothing', Buffer.alloc(0), false],
  ['the archive of a folder', zipOf('plan.xlsx'), false],
  ['an archive of nothing', Buffer.from('PK\u0005\u0006'.padEnd(30, '\0'), 'latin1'), false],
])('a workbook without a known digest begins like a workbook: %s', (_what, start, isTaken) => {
  expect(isExpected(start, {})).toBe(isTaken);
});
