import { buffer } from 'node:stream/consumers';
import { crc32 } from 'node:zlib';

import { fromBufferPromise } from 'yauzl';

import { findLeadingFolder, type LeadingFolder } from '../mirror/archive/policy.ts';
import type { ProbeAnswer } from './connection.ts';
import { given, holds, NotMet } from './verdict.ts';
import { isArchive, shapeOf } from './words.ts';

/** A fully read archive. */
export interface Archive {
  /** By path in the repository, without a folder around everything. */
  readonly files: ReadonlyMap<string, Buffer>;
  /** Whether a single folder, unknown to the listing, contains everything. */
  readonly leadingFolder: LeadingFolder['kind'];
}

/** Largest unpacked size of one archive, in bytes. */
const MAX_UNPACKED_BYTES = 256 * 1024 * 1024;

/**
 * Reads the archive in an answer, in memory: every entry must have the size and CRC-32 of the directory (APPNOTE 6.3.10).
 * @param workbookPaths paths of the listed workbooks on its branch
 * @throws NotMet unless it is a complete archive that the mirror can read, and not too large
 */
export async function readArchive(answer: ProbeAnswer, workbookPaths: Iterable<string>): Promise<Archive> {
  holds(isArchive(answer), shapeOf(answer));
  given(answer.isWhole, 'the archive is too large');
  try {
    const zip = await fromBufferPromise(answer.body, { strictFileNames: false });
    const contents = new Map<string, Buffer>();
    let unpackedBytes = 0;
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName.endsWith('/')) continue;
      unpackedBytes += entry.uncompressedSize;
      given(unpackedBytes <= MAX_UNPACKED_BYTES, 'the archive unpacks to too many bytes');
      holds(!contents.has(entry.fileName), 'the archive has a name twice');
      const content = await buffer(await zip.openReadStreamPromise(entry));
      holds(crc32(content) === entry.crc32, 'an entry of the archive does not match its CRC-32');
      contents.set(entry.fileName, content);
    }
    const leading = findLeadingFolder([...contents.keys()], workbookPaths);
    const prefix = leading.kind === 'wrapped' ? `${leading.folder}/` : '';
    return {
      files: new Map([...contents].map(([name, content]) => [name.slice(prefix.length), content])),
      leadingFolder: leading.kind,
    };
  } catch (error) {
    if (error instanceof NotMet) throw error;
    // The error may name an entry.
    throw new NotMet('it is not a complete zip archive, or packed in a way that the mirror cannot read');
  }
}
