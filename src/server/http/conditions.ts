import type { ByteRange, Bytes } from './library.ts';

/**
 * Decides which part of a file a request wants; `unsatisfiable` if it lies outside the file. A request for several ranges, and one for a range
 * of a file that has changed since, get the whole file: RFC 9110, sections 14.2 and 13.1.5, allow and ask for that.
 * @param range value of Range, if it was sent
 * @param ifRange value of If-Range, if it was sent; a date never matches, as the content is sent without a time
 */
export function chooseRange(
  range: string | undefined,
  ifRange: string | undefined,
  tag: string,
  sizeBytes: number,
): ByteRange | 'whole' | 'unsatisfiable' {
  if (range === undefined || (ifRange !== undefined && ifRange.trim() !== tag)) return 'whole';
  const [, suffix] = /^bytes=-(\d{1,15})$/i.exec(range.trim()) ?? [];
  const [, first, last = ''] = /^bytes=(\d{1,15})-(\d{0,15})$/i.exec(range.trim()) ?? [];
  const from = suffix === undefined ? Number(first) : Math.max(0, sizeBytes - Number(suffix));
  const to = last === '' ? Infinity : Number(last);
  // Neither form, or the end is before the beginning.
  if (Number.isNaN(from) || to < from) return 'whole';
  return from >= sizeBytes ? 'unsatisfiable' : { first: from, last: Math.min(to, sizeBytes - 1) };
}

/** Gives a part of bytes that can only be read from the start. @throws Error if they end before the part does */
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
