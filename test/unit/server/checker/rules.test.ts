import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { formatFindings, parseFindings } from '../../../../src/server/checker/findings.ts';
import {
  hasDocumentType,
  isOpenable,
  isSpreadsheetMarkup,
  isWholeXml,
  methodFor,
} from '../../../../src/server/checker/rules.ts';
import { decodeText, sniff } from '../../../../src/server/checker/sniff.ts';
import {
  isLastingFinding,
  isSuccess,
  workbookKindOf,
} from '../../../../src/server/checker/workbook-check.ts';

function entry(sizeBytes: number, compressedBytes: number): { sizeBytes: number; compressedBytes: number } {
  return { sizeBytes, compressedBytes };
}

describe('kinds and findings', () => {
  it('tells kinds by name', () => {
    const names = [
      'a.xlsx',
      'a.XLSM',
      'b/a.xltx',
      'a.xltm',
      'a.xlsb',
      'a.xls',
      'a.ods',
      'a.csv',
      'xlsx/a',
      'a',
    ];
    expect(names.map(workbookKindOf)).toEqual([
      ...Array.from({ length: 5 }, () => 'ooxml'),
      'xls',
      'ods',
      null,
      null,
      null,
    ]);
  });

  it('knows which findings are good, and which last', () => {
    const findings = ['opened', 'protected', 'sound', 'foreign', 'damaged', 'unread'] as const;
    expect(findings.filter(isSuccess)).toEqual(['opened', 'protected', 'sound']);
    expect(findings.filter(isLastingFinding)).toEqual(findings.slice(0, 5));
  });
});

describe('what a file is by its beginning', () => {
  it.each([
    ['PK\u0003\u0004...', 'zip'],
    ['PK\u0005\u0006' + '\0'.repeat(18), 'other'],
    ['\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1', 'compound'],
    ['\u0009\u0008\u0010\u0000\u0000\u0006\u0005\u0000', 'records'],
    ['\u0009\u0000\u0004\u0000\u0002\u0000\u0010\u0000', 'records'],
    ['\u0009\u0008\u0010', 'other'],
    ['\t\tname;value', 'other'],
    ['\u00ef\u00bb\u00bf \r\n<html>', 'markup'],
    ['\u00ff\u00fe<\0h\0', 'markup'],
    ['\u00fe\u00ff\0<\0h', 'markup'],
    ['', 'other'],
    ['a;b\n1;2', 'other'],
  ])('%j is %s', (text, container) => {
    expect(sniff(Buffer.from(text, 'latin1'))).toBe(container);
  });

  it('reads text of any encoding with a mark, also when it is cut', () => {
    expect(decodeText(Buffer.from('\ufeffä', 'utf16le'))).toBe('ä');
    expect(decodeText(Buffer.from('\ufeffä', 'utf16le').swap16())).toBe('ä');
    expect(decodeText(Buffer.from('fefe', 'hex').subarray(0, 1))).toHaveLength(1);
    expect(decodeText(Buffer.from('feff00e4ff', 'hex'))).toBe('ä');
    expect(decodeText(Buffer.from('\ufeffä', 'utf8'))).toBe('ä');
  });

  it('is examined as its name allows', () => {
    const containers = ['zip', 'compound', 'records', 'markup', 'other'] as const;
    expect(containers.map((container) => methodFor('ooxml', container))).toEqual([
      'package',
      'encrypted',
      'none',
      'none',
      'none',
    ]);
    expect(containers.map((container) => methodFor('ods', container))).toEqual([
      'package',
      'none',
      'none',
      'none',
      'none',
    ]);
    expect(containers.map((container) => methodFor('xls', container))).toEqual([
      'package',
      'binary',
      'binary',
      'markup',
      'none',
    ]);
  });
});

describe('the parts of a package', () => {
  it('are opened only where they are few and small', () => {
    const mebibyte = 1024 * 1024;
    expect(isOpenable([entry(512 * mebibyte, 500 * mebibyte)])).toBe(true);
    expect(isOpenable([entry(512 * mebibyte, 500 * mebibyte), entry(1, 1)])).toBe(false);
    expect(isOpenable([entry(32 * mebibyte, 1)])).toBe(true);
    expect(isOpenable([entry(33 * mebibyte, 1000)])).toBe(false);
    expect(isOpenable([entry(250 * mebibyte, mebibyte)])).toBe(true);
    expect(isOpenable(Array.from({ length: 20_001 }, () => entry(1, 1)))).toBe(false);
  });

  it.each([
    ['<a>b</a>', true],
    ['<?xml version="1.0"?>\n<!-- x --><x:a y="1">b</x:a >\n', true],
    ['\ufeff<a/>', true],
    ['<a>b</a><!-- end -->', true],
    ['<a>b<c/>', false],
    ['<a>b</aa>', false],
    ['<a>b</a', false],
    ['<a', false],
    ['hello', false],
    ['', false],
  ])('%j is whole XML: %s', (text, isWhole) => {
    expect(isWholeXml(Buffer.from(text))).toBe(isWhole);
  });

  it('are read in one go, however many things stand before the root element', () => {
    for (const [prologue, whole] of [
      ['<!---->'.repeat(500), true],
      ['<!----> '.repeat(500), true],
      ['<?a?>'.repeat(700), true],
      [`${'<!---->'.repeat(500)}<!--`, false],
      [`${'<!---->'.repeat(500)}<!`, false],
      [`${' '.repeat(4000)}<!`, false],
      ['\uFEFF <?xml a=">"?><!-- < --><!DOCTYPE a>\n', true],
      ['<!DOCTYPE a [<!ENTITY b "c">]>', false],
      ['text', false],
    ] as const) {
      expect(isWholeXml(Buffer.from(`${prologue}<a></a>`))).toBe(whole);
    }
    expect(isWholeXml(Buffer.from(`${'<!---->'.repeat(500)}<a`))).toBe(false);
  });

  it('tell document types and spreadsheets', () => {
    expect(hasDocumentType(Buffer.from('<?xml?><!doctype a [<!ENTITY b "c">]><a/>'))).toBe(true);
    expect(hasDocumentType(Buffer.from('<a/>'))).toBe(false);
    expect(isSpreadsheetMarkup('<html><TABLE border=1>')).toBe(true);
    expect(isSpreadsheetMarkup('<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet">')).toBe(true);
    expect(isSpreadsheetMarkup('<html><body>Log in')).toBe(false);
  });
});

describe('remembered findings', () => {
  it('are read as they were written, but for those that do not last', () => {
    const key = fc
      .tuple(fc.stringMatching(/^[0-9a-f]{40}$/), fc.constantFrom('ooxml', 'xls', 'ods'))
      .map(([id, kind]) => `${id} ${kind}`);
    const finding = fc.constantFrom('opened', 'protected', 'sound', 'foreign', 'damaged', 'unread');
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(key, finding), { selector: ([text]) => text }), (findings) => {
        const lasting = findings.filter(([, text]) => isLastingFinding(text));
        expect(parseFindings(formatFindings(findings))).toEqual(new Map(lasting));
      }),
    );
  });

  it('pass over what is none, and a file by other rules', () => {
    const line = `${'a'.repeat(40)} ooxml opened`;
    const text = `workbook-mirror findings 3\n${line}x\n${line}\n\0\0\0\n${'b'.repeat(40)} ooxml unread\n${'c'.repeat(40)} xls da`;
    expect([...parseFindings(text)]).toEqual([[`${'a'.repeat(40)} ooxml`, 'opened']]);
    expect(parseFindings(`workbook-mirror findings 1\n${line}\n`).size).toBe(0);
    expect(parseFindings('').size).toBe(0);
  });
});
