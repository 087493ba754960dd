import { randomBytes } from 'node:crypto';

import { utils } from '@e965/xlsx';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { createChecker } from '../../../../src/server/checker/checker.ts';
import type { Finding } from '../../../../src/server/checker/workbook-check.ts';
import { bytesOf, makeBook, partsWith, sheetOf, wholeFile, zipOf } from '../../../support/workbooks.ts';

const { check: examine } = createChecker();

const CELL = '<sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData>';

describe('opening a file', () => {
  it.each([
    ['xlsx', 'ooxml', 'opened'],
    ['xlsm', 'ooxml', 'opened'],
    ['xlsb', 'ooxml', 'opened'],
    ['ods', 'ods', 'opened'],
    ['biff8', 'xls', 'opened'],
    ['biff5', 'xls', 'opened'],
    ['biff4', 'xls', 'opened'],
    ['biff3', 'xls', 'opened'],
    ['biff2', 'xls', 'opened'],
    // Excel opens these under the name .xls, after a question.
    ['xlml', 'xls', 'opened'],
    ['html', 'xls', 'opened'],
    ['xlsx', 'xls', 'opened'],
    ['csv', 'xls', 'foreign'],
    ['txt', 'xls', 'foreign'],
    ['csv', 'ooxml', 'foreign'],
    ['html', 'ooxml', 'foreign'],
    ['biff8', 'ooxml', 'foreign'],
    ['ods', 'ooxml', 'foreign'],
    ['xlsx', 'ods', 'foreign'],
    ['fods', 'ods', 'foreign'],
  ] as const)('as %s under the name of %s: %s', async (bookType, kind, finding) => {
    expect(await examine(kind, wholeFile(bytesOf(makeBook(), bookType)))).toBe(finding);
  });

  it.each([
    ['nothing', ''],
    ['text', 'hello'],
    ['a pointer of Git LFS', 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n'],
  ])('of %s is refused under each name', async (_, text) => {
    for (const kind of ['ooxml', 'xls', 'ods'] as const) {
      expect(await examine(kind, wholeFile(Buffer.from(text)))).toBe('foreign');
    }
  });

  it('tells a minimal workbook from other zips', async () => {
    const find = async (parts: Record<string, string | Buffer>): Promise<Finding | null> =>
      examine('ooxml', wholeFile(await zipOf(parts)));
    const parts = partsWith(sheetOf(CELL));
    expect(await find(parts)).toBe('opened');
    expect(await find({ 'readme.txt': 'hello' })).toBe('foreign');
    expect(await find({ '[Content_Types].xml': String(parts['[Content_Types].xml']) })).toBe('damaged');
    const { 'xl/worksheets/sheet1.xml': _, ...withoutSheet } = parts;
    expect(await find(withoutSheet)).toBe('damaged');
    expect(await find(partsWith(sheetOf(CELL).slice(0, -5)))).toBe('damaged');
    expect(await find(partsWith('hello'))).toBe('damaged');
    expect(await find({ ...parts, 'xl/workbook.xml': '<workbook><sheets/></workbook>' })).toBe('damaged');
    expect(await find({ ...parts, 'xl/media/image1.png': 'picture' })).toBe('opened');
  });

  it('needs of an OpenDocument what it must have', async () => {
    const content = (inside: string): string =>
      `<office:document-content><office:body><office:spreadsheet>${inside}</office:spreadsheet></office:body></office:document-content>`;
    const manifest =
      '<manifest:manifest><manifest:file-entry manifest:full-path="/" manifest:media-type="application/vnd.oasis.opendocument.spreadsheet"/></manifest:manifest>';
    const find = async (parts: Record<string, string>): Promise<Finding | null> =>
      examine('ods', wholeFile(await zipOf(parts)));
    const table =
      '<table:table table:name="S"><table:table-row table:number-rows-repeated="1048576"><table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>';
    const parts = { 'META-INF/manifest.xml': manifest, 'content.xml': content(table) };
    expect(await find(parts)).toBe('opened');
    expect(await find({ ...parts, 'content.xml': content('') })).toBe('damaged');
    expect(await find({ 'content.xml': content(table) })).toBe('damaged');
    expect(await find({ 'META-INF/manifest.xml': manifest })).toBe('foreign');
  });

  it('takes an encrypted workbook for one', async () => {
    const encrypted = Buffer.from(bytesOf(makeBook(), 'biff8'));
    expect(encrypted.subarray(0, 4).toString('hex')).toBe('d0cf11e0');
    // An .xlsx that Excel encrypts is a compound file with these streams ([MS-OFFCRYPTO], section 2.3).
    const name = Buffer.from('Workbook', 'utf16le');
    const at = encrypted.indexOf(name);
    Buffer.from('EncryptedPackage', 'utf16le').copy(encrypted, at);
    encrypted.writeUInt16LE(34, at + 64);
    expect(await examine('ooxml', wholeFile(encrypted))).toBe('protected');
    const ods = await zipOf({
      mimetype: 'application/vnd.oasis.opendocument.spreadsheet',
      'content.xml': Buffer.from([1, 2, 3]),
      'META-INF/manifest.xml':
        '<manifest:manifest><manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>',
    });
    expect(await examine('ods', wholeFile(ods))).toBe('protected');
  });

  it('goes by the directory of a zip, and by the beginning of an .xls, where the file is too large', async () => {
    const zip = await zipOf(partsWith(sheetOf(CELL), { 'xl/media/a.bin': randomBytes(100_000) }));
    const sizeBytes = 100_000_000;
    const first = zip.subarray(0, 100);
    expect(await examine('ooxml', { sizeBytes, first, last: Buffer.alloc(4096) })).toBe('damaged');
    const last = zip.subarray(200);
    expect(await examine('ooxml', { sizeBytes: zip.length, first, last })).toBe('sound');
    const xls = bytesOf(makeBook(), 'biff8').subarray(0, 512);
    expect(await examine('xls', { sizeBytes, first: xls, last: xls })).toBe('sound');
    // It may be an encrypted workbook.
    expect(await examine('ooxml', { sizeBytes, first: xls, last: xls })).toBe('sound');
    expect(await examine('xls', { sizeBytes, first: Buffer.from('<table>'), last: xls })).toBe('foreign');
  });
});

describe('files that mean harm', () => {
  it.each([
    ['xlsx', 'ooxml'],
    ['ods', 'ods'],
    ['biff2', 'xls'],
    ['biff4', 'xls'],
  ] as const)('are refused when cut off anywhere: %s', async (type, kind) => {
    const good = bytesOf(makeBook(), type);
    for (let length = 0; length < good.length; length += 1 + Math.floor(good.length / 200))
      expect(await examine(kind, wholeFile(good.subarray(0, length)))).not.toBe('opened');
  });

  it('are refused when an .xls lacks a sector that is in use', async () => {
    const good = bytesOf(makeBook(), 'biff8');
    expect(await examine('xls', wholeFile(good))).toBe('opened');
    for (let cut = 512; cut < good.length; cut += 512)
      expect(await examine('xls', wholeFile(good.subarray(0, good.length - cut)))).not.toBe('opened');
  });

  it('are refused with any bit of a part changed', async () => {
    const good = await zipOf(partsWith(sheetOf(CELL)));
    const directoryAt = good.indexOf('PK\u0001\u0002', 0, 'latin1');
    const at = good.indexOf('xl/worksheets/sheet1.xml') + 'xl/worksheets/sheet1.xml'.length + 10;
    expect(at).toBeLessThan(directoryAt);
    good.writeUInt8(good.readUInt8(at) ^ 1, at);
    expect(await examine('ooxml', wholeFile(good))).toBe('damaged');
  });

  it('end in a finding, whatever is changed in a good one', async () => {
    const goods = (['xlsx', 'xlsb', 'ods', 'biff8', 'xlml', 'html'] as const).map((type) =>
      bytesOf(makeBook(), type),
    );
    const findings = new Set(['opened', 'protected', 'sound', 'foreign', 'damaged']);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...goods),
        fc.constantFrom('ooxml', 'xls', 'ods'),
        fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), fc.nat(255)), {
          maxLength: 12,
        }),
        async (good, kind, changes) => {
          const changed = Buffer.from(good);
          for (const [part, value] of changes) changed[Math.floor(part * changed.length)] = value;
          expect(findings.has(String(await examine(kind, wholeFile(changed))))).toBe(true);
        },
      ),
    );
  });

  it('are not unpacked when they are bombs', async () => {
    const bomb = await zipOf(
      partsWith(sheetOf(CELL), { 'xl/media/bomb.bin': Buffer.alloc(64 * 1024 * 1024) }),
    );
    expect(bomb.length).toBeLessThan(100_000);
    expect(await examine('ooxml', wholeFile(bomb))).toBe('sound');
    // One that hides how much it unpacks to.
    const entryAt = bomb.lastIndexOf('PK\u0001\u0002', undefined, 'latin1');
    bomb.writeUInt32LE(1000, entryAt + 24);
    expect(await examine('ooxml', wholeFile(bomb))).toBe('damaged');
  });

  it('do not expand entities', async () => {
    const entities = Array.from(
      { length: 10 },
      (_, level) => `<!ENTITY a${level + 1} "${`&a${level};`.repeat(10)}">`,
    );
    const laughs = `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a0 "ha">${entities.join('')}]>`;
    const sheet = sheetOf('<sheetData><row r="1"><c r="A1" t="str"><v>&a10;</v></c></row></sheetData>');
    expect(await examine('ooxml', wholeFile(await zipOf(partsWith(laughs + sheet))))).toBe('damaged');
  });

  it('may be nested deeply, and claim any range', async () => {
    const deep = '<a>'.repeat(100_000) + '</a>'.repeat(100_000);
    const opened = await Promise.all(
      [deep + CELL, `<dimension ref="A1:XFD1048576"/>${CELL}`].map(async (inside) =>
        examine('ooxml', wholeFile(await zipOf(partsWith(sheetOf(inside))))),
      ),
    );
    expect(opened).toEqual(['opened', 'opened']);
  });

  it('may have many rows', async () => {
    const sheet = utils.aoa_to_sheet(Array.from({ length: 20_000 }, (_, index) => [index]));
    const book = utils.book_new();
    utils.book_append_sheet(book, sheet, 'S');
    for (const type of ['xlsx', 'biff8', 'ods'] as const) {
      const kind = type === 'xlsx' ? 'ooxml' : type === 'ods' ? 'ods' : 'xls';
      expect(await examine(kind, wholeFile(bytesOf(book, type)))).toBe('opened');
    }
  });

  it('are left when nobody waits any more', async () => {
    const checker = createChecker();
    const large = await zipOf(partsWith(sheetOf(CELL), { 'xl/media/a.bin': randomBytes(8 * 1024 * 1024) }));
    const found = checker.check('ooxml', wholeFile(large));
    checker.close();
    expect(await found).toBeNull();
    expect(await checker.check('ooxml', wholeFile(large))).toBeNull();
  });
});
