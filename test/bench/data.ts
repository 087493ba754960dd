import { createCipheriv, createHash } from 'node:crypto';

import { randomOf } from '../support/sweep.ts';

/** The contents of a benchmark's service. */
export interface DataSet {
  readonly name: string;
  readonly repositories: number;
  readonly filesEach: number;
  /** Range of file sizes, in bytes. Small files are more frequent. */
  readonly leastBytes: number;
  readonly mostBytes: number;
  /** Whether archives are deflated; incompressible files are stored. */
  readonly isCompressible: boolean;
  /** The archive of a Git repository is downloaded whole. */
  readonly isGit: boolean;
}

/** A file of every repository of a data set. */
export interface BenchFile {
  readonly path: string;
  readonly sizeBytes: number;
}

/** A data set; by default, one drag-and-drop repository with files of 1 to 40 KiB. */
export function dataSet(name: string, fields: Partial<DataSet>): DataSet {
  const small = { repositories: 1, filesEach: 1, leastBytes: 1024, mostBytes: 40 * 1024 };
  return { name, ...small, isCompressible: true, isGit: false, ...fields };
}

/** The full name of a repository of a data set. */
export function fullNameOf({ isGit }: DataSet, at: number): string {
  return isGit ? `git.example.com/bench/books-${at + 1}.git` : `Books ${at + 1}`;
}

/** The files of each repository of a data set. */
export function filesOf({ name, filesEach, leastBytes, mostBytes }: DataSet): BenchFile[] {
  const random = randomOf(createHash('sha256').update(name).digest().readUInt32LE());
  return Array.from({ length: filesEach }, (_, index) => {
    const folder = Math.floor(index / 25);
    return {
      path: `Department ${folder % 10}/Team ${folder}/Plan ${index}.xlsx`,
      sizeBytes: Math.round(leastBytes * (mostBytes / leastBytes) ** (random() ** 2)),
    };
  });
}

const FIRST_PART = '[Content_Types].xml';
/** Every workbook begins with the local header of the first part of its package (APPNOTE, section 4.3.7). */
const PACKAGE_START = Buffer.concat([
  Buffer.from([0x50, 0x4b, 3, 4, 20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x5a]),
  Buffer.alloc(12),
  Buffer.from([FIRST_PART.length, 0, 0, 0]),
  Buffer.from(FIRST_PART),
]);

const BLOCK_BYTES = 256;

/** The bytes of a version of a file: random (AES-128 in counter mode); in a compressible file, three of eight blocks repeat. */
export function contentOf(data: DataSet, at: number, file: BenchFile, version: number): Buffer {
  const key = createHash('sha256').update(`${at} ${file.path} ${version}`).digest();
  const cipher = createCipheriv('aes-128-ctr', key.subarray(0, 16), key.subarray(16));
  const bytes = cipher.update(Buffer.alloc(file.sizeBytes));
  if (data.isCompressible)
    for (let start = 8 * BLOCK_BYTES; start + BLOCK_BYTES <= bytes.length; start += BLOCK_BYTES)
      if ((bytes[start] ?? 0) % 8 >= 5) bytes.copyWithin(start, 0, BLOCK_BYTES);
  PACKAGE_START.copy(bytes);
  return bytes;
}
