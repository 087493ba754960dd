/** Going on with a download where it broke off (RFC 9110, sections 13.1.5 and 14). All of it is plain decisions. */

/** Headers of an answer, with names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | undefined>>;

/** The identity and length of the bytes of a download. */
export interface Origin {
  /** The strong entity tag by which the rest of the same bytes can be asked for; null where it cannot. */
  readonly tag: string | null;
  /** How many bytes there are in all; null where nobody said. */
  readonly totalBytes: number | null;
}

/** The part of a download that is on disk. */
export interface Part extends Origin {
  readonly sizeBytes: number;
}

/** An answer to the request for a download, or for the rest of it. */
export type Step =
  /** The bytes from the first one on: those on disk are not needed. */
  | { readonly kind: 'begins'; readonly origin: Origin }
  /** The bytes that follow those on disk. `endBytes`: how many there are then. */
  | { readonly kind: 'continues'; readonly origin: Origin; readonly endBytes: number }
  /** It is not what was asked for, and nothing of it may be used. */
  | { readonly kind: 'unfit'; readonly reason: string };

/** Only a strong tag says that the bytes are the same (RFC 9110, section 8.8.1). */
export function strongTag(etag: string | undefined): string | null {
  return etag !== undefined && /^"[\u0021\u0023-\u007e]*"$/.test(etag) ? etag : null;
}

/** The length that an answer says its body has, before decoding; null where it says none. */
export function announcedBytes(headers: AnswerHeaders): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}

/** How many bytes there are in all, as the answer that begins them says; null where it does not. */
export function wholeBytes(headers: AnswerHeaders): number | null {
  return isCoded(headers) ? null : announcedBytes(headers);
}

/** Where the next question goes on, in bytes: 0 where it is for everything. */
export function resumesAtBytes(part: Part | null): number {
  return part?.tag === null || part === null ? 0 : part.sizeBytes;
}

/** The headers that ask for the rest of the same bytes, or for everything where they are no more the same. */
export function restHeaders(part: Part | null): Record<string, string> {
  const atBytes = resumesAtBytes(part);
  return atBytes === 0 || part === null || part.tag === null
    ? {}
    : { range: `bytes=${atBytes}-`, 'if-range': part.tag };
}

/**
 * Decides what an answer with status 200, 206 or 416 is.
 * @param part what is on disk; null where nothing was asked for but everything
 */
export function readStep(status: number, headers: AnswerHeaders, part: Part | null): Step {
  const atBytes = resumesAtBytes(part);
  if (status === 200) return { kind: 'begins', origin: originOf(headers, part) };
  if (part === null || atBytes === 0) return unfit(`with status ${status} to a question for everything`);
  if (status === 416) return unfit(`that there is nothing from byte ${atBytes} on (status 416)`);
  if (isCoded(headers)) return unfit('with a part in a content coding');
  if (headers['content-type']?.trim().toLowerCase().startsWith('multipart/byteranges') === true)
    return unfit('with several parts where one was asked for');
  if (strongTag(headers['etag']) !== part.tag) return unfit('with a part of other bytes (ETag)');
  return restOf(headers, part, atBytes);
}

/** Reads Content-Range (RFC 9110, section 14.4). */
function restOf(headers: AnswerHeaders, part: Part, atBytes: number): Step {
  const text = headers['content-range'] ?? '';
  const match = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/i.exec(text.trim());
  const [first, last, totalBytes] = match === null ? [] : match.slice(1).map(Number);
  if (first === undefined || last === undefined || totalBytes === undefined)
    return unfit('with a part that does not say which (Content-Range)');
  const endBytes = last + 1;
  const isSameTotal = part.totalBytes === null || part.totalBytes === totalBytes;
  if (first !== atBytes || endBytes <= first || endBytes > totalBytes || !isSameTotal)
    return unfit(`with another part than asked for (Content-Range: ${text.trim()})`);
  const lengthBytes = announcedBytes(headers);
  if (lengthBytes !== null && lengthBytes !== endBytes - first)
    return unfit('with a part that has another length than it says (Content-Length)');
  return { kind: 'continues', origin: { tag: part.tag, totalBytes }, endBytes };
}

function originOf(headers: AnswerHeaders, part: Part | null): Origin {
  const tag = isCoded(headers) ? null : strongTag(headers['etag']);
  // A server that sends the same bytes from the beginning, although asked for the rest, does not know ranges.
  const isIgnored = resumesAtBytes(part) > 0 && tag === part?.tag;
  const isRefused = /(?:^|,)\s*none\s*(?:,|$)/i.test(headers['accept-ranges'] ?? '');
  return { tag: isIgnored || isRefused ? null : tag, totalBytes: wholeBytes(headers) };
}

/** In a content coding, neither lengths nor places are those of the bytes on disk. */
function isCoded(headers: AnswerHeaders): boolean {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  return coding !== '' && coding !== 'identity';
}

function unfit(reason: string): Step {
  return { kind: 'unfit', reason };
}
