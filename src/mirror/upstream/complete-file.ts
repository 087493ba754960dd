import { entriesOf } from '../../lib/zip/directory.ts';
import { readEnd } from '../../lib/zip/end-record.ts';
import { viewOf, type ZipBytes } from '../../lib/zip/zip-bytes.ts';
import { isArchiveStart, isCompoundStart, START_BYTES } from './file-kind.ts';

/**
 * Whether a file proves by its own format that it ends where it should: a zip archive, as new workbooks are, or a compound file,
 * as old ones are. Of other files nothing can tell.
 * @throws Error of the disk
 */
export async function provesItsEnd(bytes: ZipBytes): Promise<boolean> {
  try {
    const start = await viewOf(bytes, 0, Math.min(START_BYTES, bytes.sizeBytes));
    if (isArchiveStart(start)) return await isWholeZip(bytes);
    return isCompoundStart(start) && (await isWholeCompoundFile(bytes));
  } catch (error) {
    if (!(error instanceof Error) || 'syscall' in error) throw error;
    return false;
  }
}

/** @throws Error where the end record, the directory and the length contradict each other */
async function isWholeZip(bytes: ZipBytes): Promise<boolean> {
  const end = await readEnd(bytes);
  let entries = 0;
  for await (const listed of entriesOf(bytes, end)) entries += listed.length;
  return entries === end.entryCount && !end.isMultiDisk;
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
async function isWholeCompoundFile(bytes: ZipBytes): Promise<boolean> {
  const header = Buffer.from(await viewOf(bytes, 0, HEADER_BYTES));
  const shift = header.readUInt16LE(SECTOR_SHIFT_AT);
  if (!SECTOR_SHIFTS.has(shift)) return false;
  const sectorBytes = 2 ** shift;
  const tables = await tablesOf(bytes, header, sectorBytes);
  for (const [index, table] of [...tables.entries()].reverse()) {
    const entries = await sectorOf(bytes, table, sectorBytes);
    for (let entry = sectorBytes / 4 - 1; entry >= 0; entry -= 1) {
      if (entries.readUInt32LE(entry * 4) === FREE_SECTOR) continue;
      // The header takes the room of the sector before the first one.
      return bytes.sizeBytes === ((index * sectorBytes) / 4 + entry + 2) * sectorBytes;
    }
  }
  return false;
}

/** The sectors of the allocation table, which the header names, and further sectors where there are many ([MS-CFB], section 2.5). */
async function tablesOf(bytes: ZipBytes, header: Buffer, sectorBytes: number): Promise<readonly number[]> {
  const count = header.readUInt32LE(TABLE_COUNT_AT);
  const tables: number[] = [];
  const take = (sector: Buffer, from: number, most: number): void => {
    for (let index = 0; index < most && tables.length < count; index += 1)
      tables.push(sector.readUInt32LE(from + index * 4));
  };
  take(header, TABLES_AT, TABLES_IN_HEADER);
  const perSector = sectorBytes / 4 - 1;
  for (let next = header.readUInt32LE(FIRST_MORE_TABLES_AT); tables.length < count;) {
    const sector = await sectorOf(bytes, next, sectorBytes);
    take(sector, 0, perSector);
    next = sector.readUInt32LE(perSector * 4);
  }
  return tables;
}

/** A sector, good until another one is asked for. @throws Error where the file does not have it */
function sectorOf(bytes: ZipBytes, sector: number, sectorBytes: number): Promise<Buffer> {
  return viewOf(bytes, (sector + 1) * sectorBytes, sectorBytes);
}
