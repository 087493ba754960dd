/** Compound files, in which an .xls and an encrypted workbook lie ([MS-CFB]). */

const HEADER_BYTES = 512;
const BYTE_ORDER = 0xfffe;
/** Sizes of a sector, as powers of two, by the major version (section 2.2). */
const SECTOR_SHIFTS: ReadonlyMap<number, number> = new Map([
  [3, 9],
  [4, 12],
]);
/** Numbers above this name no sector (section 2.1). */
const LAST_SECTOR = 0xfffffffa;
/** The sectors of the allocation table that the header itself names (section 2.2). */
const DIFAT_OFFSET = 76;
const DIFAT_IN_HEADER = 109;

export type CompoundContent = 'workbook' | 'encrypted' | 'other' | 'damaged';

/**
 * Tells what a compound file holds, by its header, by whether its allocated sectors are all there, and by the names of its streams.
 * @param file the whole file, which begins with the signature
 */
export function readCompound(file: Buffer): CompoundContent {
  if (file.length < HEADER_BYTES) return 'damaged';
  const shift = SECTOR_SHIFTS.get(file.readUInt16LE(26));
  if (shift === undefined || file.readUInt16LE(28) !== BYTE_ORDER || file.readUInt16LE(30) !== shift)
    return 'damaged';
  if (!isWhole(file, 2 ** shift)) return 'damaged';
  const has = (name: string): boolean => file.includes(Buffer.from(`${name}\0`, 'utf16le'));
  if (has('EncryptedPackage')) return 'encrypted';
  return has('Workbook') || has('Book') || has('WORKBOOK') || has('BOOK') ? 'workbook' : 'other';
}

/** Whether every sector that the allocation table has in use lies within the file, as far as the header names that table. */
function isWhole(file: Buffer, sectorBytes: number): boolean {
  const endOf = (sector: number): number => (sector + 2) * sectorBytes;
  const directory = file.readUInt32LE(48);
  if (directory >= LAST_SECTOR || endOf(directory) > file.length) return false;
  let used = directory;
  const perTable = sectorBytes / 4;
  for (let index = 0; index < DIFAT_IN_HEADER; index += 1) {
    const table = file.readUInt32LE(DIFAT_OFFSET + 4 * index);
    if (table >= LAST_SECTOR) break;
    if (endOf(table) > file.length) return false;
    for (let entry = 0; entry < perTable; entry += 1) {
      const next = file.readUInt32LE(endOf(table) - sectorBytes + 4 * entry);
      // Some writers mark what is free as the end of a chain: only what leads on is surely in use.
      if (next < LAST_SECTOR) used = Math.max(used, index * perTable + entry, next);
    }
  }
  // The last sector may be cut short where the file ends with what is in it.
  return endOf(used) - sectorBytes < file.length;
}

const END_OF_FILE_RECORD = 0x000a;

/** Whether the records of an .xls of Excel 2 to 4 go on to the one that ends them ([XLS], EOF). */
export function hasWholeRecords(file: Buffer): boolean {
  for (let at = 0; at + 4 <= file.length;) {
    const type = file.readUInt16LE(at);
    at += 4 + file.readUInt16LE(at + 2);
    if (type === END_OF_FILE_RECORD) return at <= file.length;
  }
  return false;
}
