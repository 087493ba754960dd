import { crc32 } from 'node:zlib';

import { fromBufferPromise } from 'yauzl';

import { NotApplicable, NotMet } from './verdict.ts';

/** Most bytes that one archive may unpack to here. */
const MAX_UNPACKED_BYTES = 256 * 1024 * 1024;

/**
 * Reads a zip archive in memory, whole: every entry must have the size and CRC-32 that the directory says (APPNOTE 6.3.10).
 * @returns the files by name; entries of folders are left out
 * @throws NotMet for anything but a whole archive
 */
export async function readZip(bytes: Buffer): Promise<ReadonlyMap<string, Buffer>> {
  const files = new Map<string, Buffer>();
  try {
    const archive = await fromBufferPromise(bytes);
    let unpackedBytes = 0;
    for await (const entry of archive.eachEntry()) {
      if (entry.fileName.endsWith('/')) continue;
      unpackedBytes += entry.uncompressedSize;
      if (unpackedBytes > MAX_UNPACKED_BYTES)
        throw new NotApplicable('the archive unpacks to too many bytes');
      if (files.has(entry.fileName)) throw new NotMet('the archive has a name twice');
      const chunks: Buffer[] = [];
      const stream = await archive.openReadStreamPromise(entry);
      for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
      const content = Buffer.concat(chunks);
      if (crc32(content) !== entry.crc32)
        throw new NotMet('an entry of the archive does not match its CRC-32');
      files.set(entry.fileName, content);
    }
  } catch (error) {
    if (error instanceof NotMet || error instanceof NotApplicable) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new NotMet(`it is no whole zip archive: ${why}`);
  }
  return files;
}
