import { END_AREA_BYTES, readEnd } from './end-record.ts';

/** Reads a part of a file. It rejects where the file does not have all of it. */
type ReadLater = (position: number, lengthBytes: number) => Promise<Buffer>;

/** How much of a file tells its kind. */
export const START_BYTES = 512;

/** How zip archives begin: with an entry, or, where they are empty, with the end of the directory (APPNOTE 6.3.10, 4.3). */
const ARCHIVE_STARTS = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0006\u0006'];

/** Whether a file that begins so may be a zip archive. */
export function isArchiveStart(start: Uint8Array): boolean {
  const text = Buffer.from(start).toString('latin1');
  return ARCHIVE_STARTS.some((magic) => text.startsWith(magic));
}

/** Of a compound file (MS-CFB, section 2.2): the old workbooks, and new ones that have a password (MS-OFFCRYPTO, section 1.3). */
const COMPOUND_FILE = '\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1';

/** Whether a file that begins so may be a compound file. */
export function isCompoundStart(start: Uint8Array): boolean {
  return Buffer.from(start).toString('latin1').startsWith(COMPOUND_FILE);
}

/**
 * Whether a file proves by its own format that it ends where it should: a zip archive, as new workbooks are, or a compound file,
 * as old ones are. Of other files nothing can tell.
 * @throws Error of the disk
 */
export async function provesItsEnd(read: ReadLater, sizeBytes: number): Promise<boolean> {
  try {
    const start = await read(0, Math.min(START_BYTES, sizeBytes));
    if (isCompoundStart(start)) return await isWholeCompoundFile(read, sizeBytes);
    if (!isArchiveStart(start)) return false;
    const tailBytes = Math.min(END_AREA_BYTES, sizeBytes);
    return !readEnd(await read(sizeBytes - tailBytes, tailBytes), sizeBytes).isMultiDisk;
  } catch (error) {
    if (!(error instanceof Error) || 'syscall' in error) throw error;
    return false;
  }
}

/** Fields of a compound file's header ([MS-CFB], section 2.2). */
const HEADER_BYTES = 512;
const SECTOR_SHIFT_AT = 30;
const TABLE_COUNT_AT = 44;
const FIRST_MORE_TABLES_AT = 68;
const TABLES_AT = 76;
const TABLES_IN_HEADER = 109;
/** Of sectors of 512 and of 4096 bytes. */
const SECTOR_SHIFTS: ReadonlySet<number> = new Set([9, 12]);
const FREE_SECTOR = 0xffffffff;

/** Whether the file ends with the last sector that its allocation table has in use. @throws Error where a part of the table is missing */
async function isWholeCompoundFile(read: ReadLater, sizeBytes: number): Promise<boolean> {
  const header = await read(0, HEADER_BYTES);
  const shift = header.readUInt16LE(SECTOR_SHIFT_AT);
  if (!SECTOR_SHIFTS.has(shift)) return false;
  const sectorBytes = 2 ** shift;
  const tables = await tablesOf(read, header, sectorBytes);
  for (const [index, table] of [...tables.entries()].reverse()) {
    const entries = await sectorOf(read, table, sectorBytes);
    for (let entry = sectorBytes / 4 - 1; entry >= 0; entry -= 1) {
      if (entries.readUInt32LE(entry * 4) === FREE_SECTOR) continue;
      // The header takes the room of the sector before the first one.
      return sizeBytes === ((index * sectorBytes) / 4 + entry + 2) * sectorBytes;
    }
  }
  return false;
}

/** The sectors of the allocation table, which the header names, and further sectors where there are many ([MS-CFB], section 2.5). */
async function tablesOf(read: ReadLater, header: Buffer, sectorBytes: number): Promise<readonly number[]> {
  const count = header.readUInt32LE(TABLE_COUNT_AT);
  const tables: number[] = [];
  const take = (sector: Buffer, from: number, most: number): void => {
    for (let index = 0; index < most && tables.length < count; index += 1)
      tables.push(sector.readUInt32LE(from + index * 4));
  };
  take(header, TABLES_AT, TABLES_IN_HEADER);
  const perSector = sectorBytes / 4 - 1;
  for (let next = header.readUInt32LE(FIRST_MORE_TABLES_AT); tables.length < count;) {
    const sector = await sectorOf(read, next, sectorBytes);
    take(sector, 0, perSector);
    next = sector.readUInt32LE(perSector * 4);
  }
  return tables;
}

/** @throws Error where the file does not have it */
function sectorOf(read: ReadLater, sector: number, sectorBytes: number): Promise<Buffer> {
  return read((sector + 1) * sectorBytes, sectorBytes);
}
