import { inflateRawSync } from 'node:zlib';

import { entriesOf, type ZipEntry } from '../../lib/zip/directory.ts';
import { METHODS } from '../../lib/zip/entry-facts.ts';
import { END_AREA_BYTES, readEnd, endedEarly, type ReadBytes } from '../../lib/zip/end-record.ts';
import { LOCAL_HEADER_BYTES, localHeaderBytes } from '../../lib/zip/local-header.ts';

/** The kind of a workbook by its name: `ooxml` stands for xlsx, xlsm, xltx, xltm and xlsb. */
type WorkbookKind = 'ooxml' | 'xls' | 'ods';

/** The kind of a workbook by its name. */
export function workbookKindOf(path: string): WorkbookKind {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  return ending === 'xls' || ending === 'ods' ? ending : 'ooxml';
}

/**
 * The result of a check. `foreign`: the file is not a workbook of the kind its name says; `damaged`: the end of its zip is missing
 * or contradicts itself; `unread`: Git could not read its bytes.
 */
export type Finding = 'workbook' | 'foreign' | 'damaged' | 'unread';

/** The bytes of a file; of a large one only the beginning. */
export interface FileBytes {
  readonly bytes: Buffer;
  readonly isWhole: boolean;
}

const ZIP = Buffer.from('PK\u0003\u0004', 'latin1');
/** Signature of a compound file ([MS-CFB], section 2.2): an .xls of Excel 5 and later, or an encrypted workbook. */
const COMPOUND = Buffer.from('d0cf11e0a1b11ae1', 'hex');
/** The record that an .xls of Excel 2, 3 and 4 begins with ([XLS], BOF): its identifier. */
const FIRST_RECORDS: ReadonlySet<number> = new Set([0x0009, 0x0209, 0x0409]);
/** Streams of a compound file that make it a workbook. */
const BINARY_STREAMS = ['Workbook', 'Book', 'WORKBOOK', 'BOOK'];
const ENCRYPTED_STREAMS = ['EncryptedPackage'];
/** Bytes of markup that are searched. */
const MARKUP_BYTES = 1024 * 1024;
/** The beginning of XML or HTML behind a byte order mark, as {@link textOf} gives it. */
const MARKUP = /^[\sï»¿ÿþ]*</;
/** A table in HTML, or an XML spreadsheet of Excel 2003. */
const TABLE = /<table[\s>]|urn:schemas-microsoft-com:office:spreadsheet/i;

/** The part of a package that states its kind, in lower case, and the pattern of a workbook in it. */
const KIND_PARTS = {
  /** ECMA-376 part 1, section 12.2; [MS-XLSB], section 2.1.7.62. */
  ooxml: [
    '[content_types].xml',
    /(?:sheet|template)(?:\.macroEnabled)?\.main\+xml|sheet\.binary\.macroEnabled\.main/i,
  ],
  /** OpenDocument 1.2 part 3, section 3. */
  ods: ['meta-inf/manifest.xml', /opendocument\.spreadsheet/i],
} as const;
const KIND_PART_LIMIT_BYTES = 1024 * 1024;

/**
 * Finds out whether a file is a workbook by its first bytes, the directory of its zip, and the part that names the package's kind.
 * Other parts are not read. A file of which only the beginning is known counts as a workbook if it begins like one.
 * @param kind the kind that the file's name says
 */
export function checkWorkbook(kind: WorkbookKind, { bytes, isWhole }: FileBytes): Finding {
  if (bytes.subarray(0, ZIP.length).equals(ZIP))
    return isWhole ? checkPackage(kind === 'ods' ? 'ods' : 'ooxml', bytes) : 'workbook';
  if (bytes.subarray(0, COMPOUND.length).equals(COMPOUND)) {
    if (kind === 'ods') return 'foreign';
    const streams = kind === 'xls' ? [...BINARY_STREAMS, ...ENCRYPTED_STREAMS] : ENCRYPTED_STREAMS;
    const isNamed = streams.some((name) => bytes.includes(Buffer.from(`${name}\0`, 'utf16le')));
    return isNamed || !isWhole ? 'workbook' : 'foreign';
  }
  // Excel opens records and markup under the name .xls alone.
  return kind === 'xls' && (isRecords(bytes) || isTable(textOf(bytes))) ? 'workbook' : 'foreign';
}

function isRecords(bytes: Buffer): boolean {
  return bytes.length >= 8 && FIRST_RECORDS.has(bytes.readUInt16LE(0)) && bytes.readUInt16LE(2) <= 16;
}

function isTable(text: string): boolean {
  return MARKUP.test(text) && TABLE.test(text);
}

/** Reads text whose names are ASCII, in UTF-8 or UTF-16 of either order, with a byte order mark or without. */
function textOf(bytes: Buffer): string {
  return bytes.toString('latin1', 0, MARKUP_BYTES).replaceAll('\0', '');
}

function checkPackage(kind: 'ooxml' | 'ods', bytes: Buffer): Finding {
  const read: ReadBytes = (position, lengthBytes) => {
    if (position + lengthBytes > bytes.length) throw endedEarly();
    return bytes.subarray(position, position + lengthBytes);
  };
  const [partName, pattern] = KIND_PARTS[kind];
  try {
    const end = readEnd(bytes.subarray(-END_AREA_BYTES), bytes.length);
    if (end.isMultiDisk) return 'damaged';
    const part = [...entriesOf(read, end)].find(
      ({ name }) => name.replaceAll('\\', '/').toLowerCase() === partName,
    );
    return part !== undefined && pattern.test(readPart(read, part)) ? 'workbook' : 'foreign';
  } catch {
    return 'damaged';
  }
}

/** Reads the text of a small part. @throws Error if it is damaged or too large */
function readPart(read: ReadBytes, { headerOffset, compressedBytes, compressionMethod }: ZipEntry): string {
  const headerBytes = localHeaderBytes(read(headerOffset, LOCAL_HEADER_BYTES));
  if (headerBytes === null) throw new Error('there is no local header');
  const packed = read(headerOffset + headerBytes, compressedBytes);
  if (compressionMethod === METHODS.stored) return textOf(packed);
  return textOf(inflateRawSync(packed, { maxOutputLength: KIND_PART_LIMIT_BYTES }));
}
