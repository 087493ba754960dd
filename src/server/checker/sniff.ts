/** The form of a file by its first bytes, whatever its name. */
export type Container =
  /** A zip with a file in it. */
  | 'zip'
  /** A compound file ([MS-CFB], section 2.2): an .xls of Excel 5 and later, or an encrypted workbook. */
  | 'compound'
  /** The records of an .xls of Excel 2 to 4, without a compound file around them ([XLS], BOF). */
  | 'records'
  /** XML or HTML. */
  | 'markup'
  | 'other';

const ZIP = Buffer.from('PK\u0003\u0004', 'latin1');
const COMPOUND = Buffer.from('d0cf11e0a1b11ae1', 'hex');
/** Identifiers of the record that an .xls begins with: of Excel 2, 3, 4, and 5 and later. */
const FIRST_RECORDS: ReadonlySet<number> = new Set([0x0009, 0x0209, 0x0409, 0x0809]);
const SHORTEST_FIRST_RECORD_BYTES = 4;
const LONGEST_FIRST_RECORD_BYTES = 16;
const SNIFFED_BYTES = 1024;

function isRecords(bytes: Buffer): boolean {
  if (bytes.length < 8 || !FIRST_RECORDS.has(bytes.readUInt16LE(0))) return false;
  const length = bytes.readUInt16LE(2);
  return length >= SHORTEST_FIRST_RECORD_BYTES && length <= LONGEST_FIRST_RECORD_BYTES;
}

/** Reads text in the encoding that its byte order mark names, UTF-8 without one, and gives it without the mark. */
export function decodeText(bytes: Buffer): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return bytes.toString('utf16le', 2);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) {
    return Buffer.from(bytes.subarray(2, 2 + 2 * Math.floor((bytes.length - 2) / 2)))
      .swap16()
      .toString('utf16le');
  }
  return bytes.toString('utf8', bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0);
}

/** Tells what a file is by its beginning. */
export function sniff(bytes: Buffer): Container {
  if (bytes.subarray(0, ZIP.length).equals(ZIP)) return 'zip';
  if (bytes.subarray(0, COMPOUND.length).equals(COMPOUND)) return 'compound';
  if (isRecords(bytes)) return 'records';
  return decodeText(bytes.subarray(0, SNIFFED_BYTES)).trimStart().startsWith('<') ? 'markup' : 'other';
}
