import { setImmediate } from 'node:timers/promises';
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

/** The bytes of a file, or, of a large one, its two ends. */
export interface FileBytes {
  /** Size of the whole file. */
  readonly sizeBytes: number;
  /** The beginning of the file; all of it if it is no longer. */
  readonly first: Buffer;
  /** The end of the file; empty if `first` is the whole file. */
  readonly last: Buffer;
}

const ZIP = Buffer.from('PK\u0003\u0004', 'latin1');
/** Signature of a compound file ([MS-CFB], section 2.2): an .xls of Excel 5 and later, or an encrypted workbook. */
const COMPOUND = Buffer.from('d0cf11e0a1b11ae1', 'hex');
/** The record that an .xls of Excel 2, 3 and 4 begins with ([XLS], BOF): its identifier. */
const FIRST_RECORDS: ReadonlySet<number> = new Set([0x0009, 0x0209, 0x0409]);
/** Streams of a compound file that make it a workbook. */
const BINARY_STREAMS = ['Workbook', 'Book', 'WORKBOOK', 'BOOK'];
const ENCRYPTED_STREAMS = ['EncryptedPackage'];
/** Bytes of a text that are searched. */
const TEXT_LIMIT_BYTES = 1024 * 1024;
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

/**
 * Finds out whether a file is a workbook by its first bytes, the directory of its zip, and the part that names the package's kind.
 * Other parts are not read. Time and memory are bounded.
 * @param kind the kind that the file's name says
 */
export async function checkWorkbook(kind: WorkbookKind, file: FileBytes): Promise<Finding> {
  const { first } = file;
  if (first.subarray(0, ZIP.length).equals(ZIP)) return checkPackage(kind === 'ods' ? 'ods' : 'ooxml', file);
  if (first.subarray(0, COMPOUND.length).equals(COMPOUND)) {
    if (kind === 'ods') return 'foreign';
    const streams = kind === 'xls' ? [...BINARY_STREAMS, ...ENCRYPTED_STREAMS] : ENCRYPTED_STREAMS;
    return holdsStream(file, streams) ? 'workbook' : 'foreign';
  }
  // Excel opens records and markup under the name .xls alone.
  return kind === 'xls' && (isRecords(first) || isTable(textOf(first))) ? 'workbook' : 'foreign';
}

/** Whether a compound file has one of these streams; its directory may be in the part of a large one that was not read. */
function holdsStream({ sizeBytes, first }: FileBytes, names: readonly string[]): boolean {
  return (
    first.length < sizeBytes || names.some((name) => first.includes(Buffer.from(`${name}\0`, 'utf16le')))
  );
}

function isRecords(bytes: Buffer): boolean {
  return bytes.length >= 8 && FIRST_RECORDS.has(bytes.readUInt16LE(0)) && bytes.readUInt16LE(2) <= 16;
}

function isTable(text: string): boolean {
  return MARKUP.test(text) && TABLE.test(text);
}

/** Reads text whose names are ASCII, in UTF-8 or UTF-16 of either order, with a byte order mark or without. */
function textOf(bytes: Buffer): string {
  return bytes.toString('latin1', 0, TEXT_LIMIT_BYTES).replaceAll('\0', '');
}

/** Parts to check before yielding to requests: a million parts, even in memory, take seconds. */
const PARTS_TOGETHER = 1000;

async function checkPackage(kind: 'ooxml' | 'ods', { sizeBytes, first, last }: FileBytes): Promise<Finding> {
  const bytes = last.length === 0 ? first : last;
  const startBytes = sizeBytes - bytes.length;
  const read: ReadBytes = (position, lengthBytes) => {
    const at = position - startBytes;
    if (at < 0 || at + lengthBytes > bytes.length) throw endedEarly();
    return bytes.subarray(at, at + lengthBytes);
  };
  const [partName, pattern] = KIND_PARTS[kind];
  try {
    const end = readEnd(bytes.subarray(-END_AREA_BYTES), sizeBytes);
    if (end.isMultiDisk) return 'damaged';
    let part: ZipEntry | undefined;
    let count = 0;
    for (const entry of entriesOf(read, end)) {
      if (entry.name.replaceAll('\\', '/').toLowerCase() === partName) part ??= entry;
      if ((count += 1) % PARTS_TOGETHER === 0) await setImmediate();
    }
    if (part === undefined) return 'foreign';
    // In a large file this part may be outside of the ends that were read.
    return part.headerOffset < startBytes || pattern.test(readPart(read, part)) ? 'workbook' : 'foreign';
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
  return textOf(inflateRawSync(packed, { maxOutputLength: TEXT_LIMIT_BYTES }));
}
