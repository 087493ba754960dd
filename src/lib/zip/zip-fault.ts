/** A zip archive is not whole, or contradicts itself. The message is a full sentence. */
export class ZipFault extends Error {}

/**
 * Reads a part of an archive. The bytes are good until the next part is read.
 * @throws ZipFault where the archive does not have all of it; Error of the disk
 */
export type ReadBytes = (position: number, lengthBytes: number) => Buffer;

export function endedEarly(): ZipFault {
  return new ZipFault('The archive is damaged: unexpected end of the file.');
}
