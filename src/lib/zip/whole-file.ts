import { END_AREA_BYTES, readEnd } from './end-record.ts';

/** Reads a part of a file. It rejects if the file lacks some of it. */
type ReadLater = (position: number, lengthBytes: number) => Promise<Buffer>;

/** How much of a file shows its kind. */
export const START_BYTES = 512;

/** The starts of zip archives: an entry or, if they are empty, the end of the directory (APPNOTE 6.3.10, 4.3). */
const ARCHIVE_STARTS = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0006\u0006'];

/** Whether a file with this start may be a zip archive. */
export function isArchiveStart(start: Uint8Array): boolean {
  const text = Buffer.from(start).toString('latin1');
  return ARCHIVE_STARTS.some((magic) => text.startsWith(magic));
}

/** The start of a compound file (MS-CFB, section 2.2): old workbooks, and new ones with a password (MS-OFFCRYPTO, section 1.3). */
const COMPOUND_FILE = '\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1';

/** Whether a file with this start may be a compound file. */
export function isCompoundStart(start: Uint8Array): boolean {
  return Buffer.from(start).toString('latin1').startsWith(COMPOUND_FILE);
}

/**
 * Whether a file proves by its own format that it ends where it should: a zip archive, as new workbooks are. Other
 * files would have to be read.
 * @throws Error of the disk
 */
export async function provesItsEnd(read: ReadLater, sizeBytes: number): Promise<boolean> {
  try {
    const start = await read(0, Math.min(START_BYTES, sizeBytes));
    if (!isArchiveStart(start)) return false;
    const tailBytes = Math.min(END_AREA_BYTES, sizeBytes);
    return !readEnd(await read(sizeBytes - tailBytes, tailBytes), sizeBytes).isMultiDisk;
  } catch (error) {
    if (!(error instanceof Error) || 'syscall' in error) throw error;
    return false;
  }
}
