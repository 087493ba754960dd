import { createCipheriv, createHash } from 'node:crypto';

export const MIB = 1024 * 1024;

/** An archive that memory does not hold: its large files are unpacked while it arrives, in several batches, and past the page cache. */
export const LARGE_FILES: Readonly<Record<string, number>> = {
  'Extracts/January.csv': 15 * MIB,
  'Extracts/February.csv': 15 * MIB,
  'Extracts/March.csv': 15 * MIB,
  'Extracts/April.csv': 15 * MIB + 1,
  'Half.xlsx': 3 * MIB + 511,
  'Quarter.xlsx': 2 * MIB,
  'Month.xlsx': 70 * 1024,
  'Week.xlsx': 5_000,
};

/** Bytes that do not repeat, the same each time. */
export function largeFile(path: string, edition: number, sizeBytes: number): Buffer {
  const key = createHash('md5').update(`${edition} ${path}`).digest();
  return createCipheriv('aes-128-ctr', key, key).update(Buffer.alloc(sizeBytes));
}
