import { writeSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';

import { diskError } from '../../lib/errors/disk-errors.ts';

/** Writes one piece after the other to a file. */
export interface FileWriter {
  /**
   * Writes a piece whole.
   * @returns what is to be waited for before the next one; null where it is written already
   * @throws MirrorError `disk.*`
   */
  readonly write: (piece: Uint8Array) => Promise<void> | null;
  /** Where the next piece goes, in bytes from the beginning. */
  readonly endBytes: () => number;
}

/** A write that takes longer is not one into memory, even where others have the processor for a while. */
const SLOW_WRITE_MS = 50;

/**
 * Makes a writer. As long as the system takes pieces into its memory at once, they are written directly: to hand each one to another
 * thread costs more than the writing itself. After a write that took long, as on a disk that is behind, the program does not wait
 * for the next one.
 * @param atBytes where it begins to write
 */
export function createFileWriter(file: FileHandle, atBytes: number): FileWriter {
  let endBytes = atBytes;
  let isSlow = false;
  const inBackground = async (piece: Uint8Array): Promise<void> => {
    const startedAtMs = performance.now();
    for (let written = 0; written < piece.length;) {
      const { bytesWritten } = await file
        .write(piece, written, piece.length - written, endBytes)
        .catch(failed);
      written += bytesWritten;
      endBytes += bytesWritten;
    }
    isSlow = performance.now() - startedAtMs > SLOW_WRITE_MS;
  };
  const directly = (piece: Uint8Array): void => {
    const startedAtMs = performance.now();
    for (let written = 0; written < piece.length;) {
      const bytesWritten = writeDirectly(file, piece, written, endBytes);
      written += bytesWritten;
      endBytes += bytesWritten;
    }
    isSlow = performance.now() - startedAtMs > SLOW_WRITE_MS;
  };
  return {
    write: (piece) => {
      if (isSlow) return inBackground(piece);
      directly(piece);
      return null;
    },
    endBytes: () => endBytes,
  };
}

function writeDirectly(file: FileHandle, piece: Uint8Array, from: number, atBytes: number): number {
  try {
    return writeSync(file.fd, piece, from, piece.length - from, atBytes);
  } catch (error) {
    return failed(error);
  }
}

function failed(cause: unknown): never {
  throw diskError(cause, 'writing the download');
}
