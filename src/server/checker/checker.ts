import { text } from 'node:stream/consumers';

import { type Entry, fromBufferPromise } from 'yauzl';

import { END_AREA_BYTES, readEnd } from '../../lib/zip/end-record.ts';
import { isArchiveStart, isCompoundStart } from '../../lib/zip/whole-file.ts';
import type { Git } from '../git/git.ts';

/** The kind of a workbook by its name: `ooxml` stands for xlsx, xlsm, xltx, xltm and xlsb. */
type WorkbookKind = 'ooxml' | 'xls' | 'ods';

/** The kind of a workbook by its name. */
export function workbookKindOf(path: string): WorkbookKind {
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase();
  return ending === 'xls' || ending === 'ods' ? ending : 'ooxml';
}

/**
 * The result of a check. `foreign`: the file is not a workbook of the kind its name says; `damaged`: the end of its zip is missing
 * or contradicts itself.
 */
export type Finding = 'workbook' | 'foreign' | 'damaged';

/** A file of at most this size is read whole. */
const WHOLE_BYTES = 64 * 1024 ** 2;

/** Reads a file whole, or only its ends if it is large. */
async function readEnds(chunks: AsyncIterable<Buffer>) {
  const first: Buffer[] = [];
  let last: Buffer = Buffer.alloc(0);
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    if (sizeBytes < WHOLE_BYTES) first.push(chunk);
    last = Buffer.concat([last, chunk]).subarray(-END_AREA_BYTES);
    sizeBytes += chunk.length;
  }
  return { first: Buffer.concat(first), last, sizeBytes };
}

/** The first record of an .xls of Excel 2, 3 and 4 ([XLS], BOF): its number and its length. */
const FIRST_RECORDS: ReadonlySet<string> = new Set(['09000400', '09020600', '09040600']);

/**
 * Finds out whether a file of a repository is a workbook by its first bytes and, if it is a zip, by the end and the directory of that,
 * and the part that names the package's kind. Of a large file, only the first bytes and the end are looked at.
 * @param path ends as the file's name does
 * @throws MirrorError `service.failed` when git cannot give it, or is ended by the signal
 */
export async function checkWorkbook(
  git: Git,
  gitDirectory: string,
  blobId: string,
  path: string,
  signal?: AbortSignal,
): Promise<Finding> {
  const kind = workbookKindOf(path);
  const bytes = git.output(gitDirectory, ['cat-file', 'blob', blobId], { signal });
  const { first, last, sizeBytes } = await readEnds(bytes);
  // An encrypted workbook is a compound file, too.
  if (isCompoundStart(first)) return kind === 'ods' ? 'foreign' : 'workbook';
  if (isArchiveStart(first)) {
    try {
      if (readEnd(last, sizeBytes).isMultiDisk) return 'damaged';
      return first.length < sizeBytes || (await isPackage(kind, first)) ? 'workbook' : 'foreign';
    } catch {
      return 'damaged';
    }
  }
  return kind === 'xls' && FIRST_RECORDS.has(first.toString('hex', 0, 4)) ? 'workbook' : 'foreign';
}

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

/** The part that states the kind is smaller than this: a smaller file may unpack to gigabytes. */
const PART_LIMIT_BYTES = 1024 ** 2;

/** Whether a zip is the package of a workbook. @throws Error if it is damaged */
async function isPackage(kind: WorkbookKind, bytes: Buffer): Promise<boolean> {
  const [partName, pattern] = KIND_PARTS[kind === 'ods' ? 'ods' : 'ooxml'];
  // If yauzl decoded the names, it would refuse the whole zip for one that leads out of a folder, although nothing is unpacked here.
  const zip = await fromBufferPromise(bytes, { decodeStrings: false });
  let part: Entry | undefined;
  for await (const entry of zip.eachEntry())
    if (entry.fileNameRaw.toString().replaceAll('\\', '/').toLowerCase() === partName) part ??= entry;
  if (part === undefined || part.uncompressedSize > PART_LIMIT_BYTES) return false;
  // In UTF-16, every other byte of these names is 0.
  const content = (await text(await zip.openReadStreamPromise(part))).replaceAll('\0', '');
  return pattern.test(content);
}
