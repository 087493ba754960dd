import { describe, expect, it } from 'vitest';

import { isExpectedFile, type ReceivedFile } from '../../../../src/mirror/upstream/contents.ts';

/** The beginning of an archive whose first entry has this name. */
function zipOf(name: string): Buffer {
  const header = Buffer.alloc(30);
  header.write('PK\u0003\u0004', 'latin1');
  header.writeUInt16LE(name.length, 26);
  return Buffer.concat([header, Buffer.from(`${name}content`)]);
}

const COMPOUND = Buffer.from('d0cf11e0a1b11ae1000000', 'hex');

function received(path: string, start: Buffer, headers: ReceivedFile['headers'] = {}): ReceivedFile {
  return { path, sizeBytes: start.length, sha256: 'ab', headers, start };
}

describe('a file of which the digest is known', () => {
  it('is what has it, whatever it looks like', () => {
    const page = received('a.xlsx', Buffer.from('<!doctype html>'), { 'content-type': 'text/html' });
    expect(isExpectedFile(page, { sha256: 'AB' })).toBe(true);
    expect(isExpectedFile(page, { sha256: 'ab', sizeBytes: 15 })).toBe(true);
  });

  it('is not what has another, or another size', () => {
    const workbook = received('a.xlsx', zipOf('[Content_Types].xml'));
    expect(isExpectedFile(workbook, { sha256: 'cd' })).toBe(false);
    expect(isExpectedFile(workbook, { sha256: 'ab', sizeBytes: 1 })).toBe(false);
    expect(isExpectedFile(workbook, { sizeBytes: 1 })).toBe(false);
  });
});

describe('a file of which no digest is known', () => {
  it.each<[string, string, Buffer, ReceivedFile['headers']]>([
    ['a new workbook', 'a/b.xlsx', zipOf('[Content_Types].xml'), {}],
    ['one by another program', 'a/b.XLSM', zipOf('docProps/app.xml'), {}],
    ['one with a password', 'b.xlsb', COMPOUND, {}],
    ['an OpenDocument one', 'b.ods', zipOf('mimetype'), {}],
    ['an old one', 'b.xls', COMPOUND, { 'content-type': 'application/vnd.ms-excel' }],
    ['any other file', 'notes.txt', Buffer.from('text'), { 'content-type': 'application/octet-stream' }],
    ['a web page', 'a.html', Buffer.from('<!doctype html>'), { 'content-type': 'text/html' }],
    ['JSON', 'a.json', Buffer.from('{}'), { 'content-type': 'application/json' }],
    ['an archive', 'a.zip', zipOf('x'), { 'content-disposition': 'attachment; filename="a.zip"' }],
    ['nothing', 'empty', Buffer.alloc(0), {}],
    [
      'a workbook that is saved by its name',
      'b.xlsx',
      zipOf('xl/workbook.xml'),
      { 'content-disposition': 'attachment; filename="b.xlsx"' },
    ],
  ])('is taken: %s', (_what, path, start, headers) => {
    expect(isExpectedFile(received(path, start, headers), {})).toBe(true);
  });

  it.each<[string, string, Buffer, ReceivedFile['headers']]>([
    [
      'a login page by its type',
      'a.txt',
      Buffer.from('Sign in'),
      { 'content-type': 'text/html; charset=utf-8' },
    ],
    ['a login page by its look', 'a.txt', Buffer.from('\n<!DOCTYPE html><html>'), {}],
    ['an error in JSON', 'a.csv', Buffer.from('{"detail":"no"}'), { 'content-type': 'application/json' }],
    ['a problem in JSON', 'a.csv', Buffer.from('{}'), { 'content-type': 'application/problem+json' }],
    ['an error in the place of a workbook', 'a.xlsx', Buffer.from('{"detail":"no"}'), {}],
    ['text in the place of an old one', 'a.xls', Buffer.from('text'), {}],
    ['nothing in the place of a workbook', 'a.xlsx', Buffer.alloc(0), {}],
    ['the archive of a folder', 'a.xlsx', zipOf('plan.xlsx'), {}],
    ['an archive of nothing', 'a.xlsx', Buffer.from('PK\u0005\u0006'.padEnd(22, '\0'), 'latin1'), {}],
    ['the archive of a folder by its type', 'a.txt', zipOf('x'), { 'content-type': 'application/zip' }],
    [
      'the archive of a folder by its name',
      'a.txt',
      Buffer.from('x'),
      { 'content-disposition': 'attachment; filename=a.zip' },
    ],
    [
      'the archive of a folder by one of many parameters',
      'a.txt',
      Buffer.from('x'),
      { 'content-disposition': `attachment; filename=${' '.repeat(8000)}a.zip ; a=b` },
    ],
    [
      'the archive of a folder by its other name',
      'a.txt',
      Buffer.from('x'),
      { 'content-disposition': "attachment; filename*=UTF-8''a.ZIP" },
    ],
  ])('is not taken: %s', (_what, path, start, headers) => {
    expect(isExpectedFile(received(path, start, headers), {})).toBe(false);
  });
});
