import { crc32 } from 'node:zlib';

import { fromBufferPromise } from 'yauzl';

import { findLeadingFolder, type LeadingFolder } from '../mirror/archive/policy.ts';
import { NotMet, NotTried } from './verdict.ts';

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
 * Reads an archive in memory: every entry must have the size and CRC-32 of the directory (APPNOTE 6.3.10).
 * @param workbookPaths paths of the listed workbooks on its branch
 * @throws NotMet unless it is a complete archive that the mirror can read
 */
export async function readArchive(bytes: Buffer, workbookPaths: Iterable<string>): Promise<Archive> {
  try {
    const zip = await fromBufferPromise(bytes, { strictFileNames: false });
    const contents = new Map<string, Buffer>();
    let unpackedBytes = 0;
    for await (const entry of zip.eachEntry()) {
      if (entry.fileName.endsWith('/')) continue;
      unpackedBytes += entry.uncompressedSize;
      if (unpackedBytes > MAX_UNPACKED_BYTES) throw new NotTried('the archive unpacks to too many bytes');
      if (contents.has(entry.fileName)) throw new NotMet('the archive has a name twice');
      const chunks: Buffer[] = [];
      const stream: AsyncIterable<Buffer> = await zip.openReadStreamPromise(entry);
      for await (const chunk of stream) chunks.push(chunk);
      const content = Buffer.concat(chunks);
      if (crc32(content) !== entry.crc32)
        throw new NotMet('an entry of the archive does not match its CRC-32');
      contents.set(entry.fileName, content);
    }
    const leading = findLeadingFolder([...contents.keys()], workbookPaths);
    const prefix = leading.kind === 'wrapped' ? `${leading.folder}/` : '';
    return {
      files: new Map([...contents].map(([name, content]) => [name.slice(prefix.length), content])),
      leadingFolder: leading.kind,
    };
  } catch (error) {
    if (error instanceof NotMet || error instanceof NotTried) throw error;
    // The error may name an entry.
    throw new NotMet('it is not a complete zip archive, or packed in a way that the mirror cannot read');
  }
}

/** Whether two archives have the same files with the same bytes. */
export function isSame(one: ReadonlyMap<string, Buffer>, other: ReadonlyMap<string, Buffer>): boolean {
  return (
    one.size === other.size && [...one].every(([path, bytes]) => other.get(path)?.equals(bytes) === true)
  );
}
