import type { ByteRange, Bytes } from './library.ts';

/** Range requests (RFC 9110, section 14). */

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
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(range.trim()) ?? [];
  if (first === '' && last === '') return 'whole';
  if (first === '') {
    const wanted = Math.min(Number(last), sizeBytes);
    if (wanted === 0) return 'unsatisfiable';
    return { first: sizeBytes - wanted, last: sizeBytes - 1 };
  }
  if (last !== '' && Number(last) < Number(first)) return 'whole';
  if (Number(first) >= sizeBytes) return 'unsatisfiable';
  const end = last === '' ? sizeBytes - 1 : Math.min(Number(last), sizeBytes - 1);
  return { first: Number(first), last: end };
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
