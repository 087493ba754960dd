import { createCipheriv, createHash } from 'node:crypto';

/** Bytes that look random and are always the same for the same seed (AES-128 in counter mode): they do not compress. */
export function randomBytesOf(seed: string, sizeBytes: number): Buffer {
  const key = createHash('sha256').update(seed).digest();
  const cipher = createCipheriv('aes-128-ctr', key.subarray(0, 16), key.subarray(16));
  return cipher.update(Buffer.alloc(sizeBytes));
}

const BLOCK_BYTES = 256;
/** Of eight blocks so many are new; the others repeat one of the first. */
const NEW_OF_EIGHT = 5;

/** Bytes that deflate to about two thirds, always the same for the same seed. */
export function compressibleBytesOf(seed: string, sizeBytes: number): Buffer {
  const bytes = randomBytesOf(seed, sizeBytes);
  for (let start = 8 * BLOCK_BYTES; start + BLOCK_BYTES <= sizeBytes; start += BLOCK_BYTES) {
    const choice = bytes[start] ?? 0;
    if (choice % 8 >= NEW_OF_EIGHT)
      bytes.copyWithin(start, (choice >> 5) * BLOCK_BYTES, ((choice >> 5) + 1) * BLOCK_BYTES);
  }
  return bytes;
}

/** Numbers from 0 to below 1, always the same for the same seed (mulberry32, by Tommy Ettinger, in the public domain). */
export function numbersOf(seed: string): () => number {
  let state = createHash('sha256').update(seed).digest().readUInt32LE();
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
