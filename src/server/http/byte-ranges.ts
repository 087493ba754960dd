import type { ByteRange, Bytes } from './library.ts';

/** Gives a part of bytes that can only be read from their beginning. @throws Error when they end before it does */
export async function* partOf(bytes: Bytes, { first, last }: ByteRange): Bytes {
  let at = 0;
  for await (const chunk of bytes) {
    const from = Math.max(0, first - at);
    const to = Math.min(chunk.length, last + 1 - at);
    if (from < to) yield chunk.subarray(from, to);
    at += chunk.length;
    if (at > last) return;
  }
  throw new Error(`there are ${at} bytes, and byte ${last} was promised`);
}

/** Gives the number of bytes. */
export async function countBytes(bytes: Bytes): Promise<number> {
  let sizeBytes = 0;
  for await (const chunk of bytes) sizeBytes += chunk.length;
  return sizeBytes;
}
