import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** Digests bytes while they come. */
export interface Digester {
  /** Forgets what came before. */
  readonly begin: () => void;
  readonly take: (piece: Uint8Array) => void;
  /** SHA-256 in hexadecimal digits, and CRC-32, of all that was taken; to be asked for once. */
  readonly results: () => { readonly sha256: string; readonly crc32: number };
}

/** Makes a digester of nothing yet. */
export function createDigester(): Digester {
  let hash = createHash('sha256');
  let sum = 0;
  return {
    begin: () => {
      hash = createHash('sha256');
      sum = 0;
    },
    take: (piece) => {
      hash.update(piece);
      sum = crc32(piece, sum);
    },
    results: () => ({ sha256: hash.digest('hex'), crc32: sum }),
  };
}
