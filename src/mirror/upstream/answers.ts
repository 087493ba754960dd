import { MirrorError } from '../../lib/errors/errors.ts';
import { roughDuration } from '../../lib/text/humanize.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import { announcedBytes, piecesOf, type WireAnswer } from './connections.ts';
import { kindOf, wrongKind } from './failures.ts';

/** An answer from a cache between here and the service (RFC 9111, section 5.1). */
export interface Cached {
  /** When the service gave it, in milliseconds since the epoch. */
  readonly asOfMs: number;
  /** The cache's own name; null if it gives none. */
  readonly via: string | null;
}

/** Older than anything that counts as fresh. A far greater age would give impossible times. */
const MAX_AGE_MS = 365 * 24 * 3_600_000;

const MAX_NAME_LENGTH = 100;

/** Recognises an answer from a cache by `Age`. @param nowMs when it came, in milliseconds since the epoch */
export function cachedAnswer(
  headers: Readonly<Record<string, string | undefined>>,
  nowMs: number,
): Cached | null {
  // Caches in a row may each have added a header: the first one counts (RFC 9111, section 5.1).
  const seconds = /^(\d+)\s*(?:,|$)/.exec(headers['age']?.trim() ?? '')?.[1];
  const ageMs = Math.min(Number(seconds ?? 0) * 1000, MAX_AGE_MS);
  if (ageMs === 0) return null;
  return { asOfMs: nowMs - ageMs, via: headers['via']?.slice(0, MAX_NAME_LENGTH) ?? null };
}

/** The older of two answers; null if neither came from a cache. */
export function olderOf(one: Cached | null, other: Cached | null): Cached | null {
  if (one === null || other === null) return one ?? other;
  return one.asOfMs <= other.asOfMs ? one : other;
}

/** Names a cache, at the beginning of a sentence. */
export function cacheName({ via }: Cached): string {
  return via === null ? 'A cache on the way' : `The cache ${JSON.stringify(via)} on the way (Via)`;
}

/** Names the cache and the age of its answer, as a sentence without its full stop. @param nowMs milliseconds since the epoch */
export function cachedSentence(cached: Cached, nowMs: number): string {
  const age = roughDuration(nowMs - cached.asOfMs);
  return `${cacheName(cached)} answered in place of the service, although it was asked not to: its answer was ${age} old. Exempt the service from that cache`;
}

/** An answer of the service. */
export interface Answer extends WireAnswer {
  /** Null if the service itself gave it, according to its headers. */
  readonly cached: Cached | null;
  readonly patience: Patience;
}

/** How long the bytes of an answer are waited for. */
export interface Patience {
  /** An answer is abandoned after this long without a byte, in milliseconds. */
  readonly timeoutMs: number;
  /** Called when bytes of an answer arrived. */
  readonly onProgress?: () => void;
}

/** Greatest answer in JSON, in bytes after decoding; pages of a list count one by one. */
const MAX_JSON_BYTES = 256 * 1024 * 1024;

/**
 * The limits on slow bodies. `timeoutMs` alone would let one byte at a time keep a pass busy for ever. So JSON has this
 * many times that in all, and a download must bring some bytes in every such time: an archive of gigabytes over a slow
 * line may take as long as it needs.
 */
const TIMEOUTS_IN_ALL = 10;

/** The limits for reading a body. */
export interface BodyBounds {
  /** Most bytes, after decoding. */
  readonly maxBytes: number;
  /** The bytes that must arrive in every ten timeouts of waiting, unless the rest is shorter. */
  readonly leastBytes: number;
  readonly tooLarge: () => MirrorError;
  readonly tooSlow: (durationMs: number) => MirrorError;
}

/**
 * Yields the pieces of a body as they arrive, as {@link piecesOf} does. Only waiting for them counts as slow: the service is not to
 * blame for a slow reader. A silence ends the body in any case: see `timeoutMs`.
 * @param beforeBytes the bytes of earlier tries, which count for the greatest size
 * @throws MirrorError as the limits say; errors of the stream
 */
export async function* readBody(
  answer: Pick<Answer, 'body' | 'patience'>,
  { maxBytes, leastBytes, tooLarge, tooSlow }: BodyBounds,
  beforeBytes = 0,
): AsyncGenerator<Uint8Array, void, void> {
  const { timeoutMs, onProgress } = answer.patience;
  const periodMs = timeoutMs * TIMEOUTS_IN_ALL;
  let sizeBytes = beforeBytes;
  let [waitedMs, cameBytes] = [0, 0];
  let sinceMs = performance.now();
  for await (const piece of piecesOf(answer)) {
    waitedMs += performance.now() - sinceMs;
    sizeBytes += piece.length;
    cameBytes += piece.length;
    onProgress?.();
    if (sizeBytes > maxBytes) throw tooLarge();
    if (cameBytes >= leastBytes) [waitedMs, cameBytes] = [0, 0];
    else if (waitedMs > periodMs) throw tooSlow(periodMs);
    yield piece;
    sinceMs = performance.now();
  }
}

/**
 * Reads a JSON answer.
 * @throws MirrorError `service.wrong_kind` for anything else, for example a login page; as {@link withBytes}
 */
export function readJson(answer: Answer): Promise<unknown> {
  return withBytes(answer, (bytes) => parseJson(answer, bytes));
}

/** Parses an answer. @throws MirrorError `service.wrong_kind` */
export function parseJson(answer: Answer, bytes: Buffer): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrongKind(answer, kindOf(text, answer.headers['content-type']), cause);
  }
}

/** Memory that an answer was read into. New memory for each page of a long list would keep the garbage collector busy. */
let spare: Buffer | null = null;
const LEAST_MEMORY_BYTES = 64 * 1024;
/** Larger memory is not kept. */
const MOST_SPARE_BYTES = 2 * 1024 * 1024;

/**
 * Reads an answer in JSON.
 * @param use receives its bytes, whose memory is then used again
 * @throws MirrorError `service.answer_too_large`, `service.timeout`; Error if it breaks off; the errors of `use`
 */
export async function withBytes<T>(answer: Answer, use: (bytes: Buffer) => T): Promise<T> {
  const { headers, url } = answer;
  if ((announcedBytes(headers) ?? 0) > MAX_JSON_BYTES) throw tooLarge(url);
  const bounds = {
    maxBytes: MAX_JSON_BYTES,
    leastBytes: Number.POSITIVE_INFINITY,
    tooLarge: () => tooLarge(url),
    tooSlow: (durationMs: number) => tooSlow(url, durationMs),
  };
  let memory = spare ?? Buffer.allocUnsafeSlow(LEAST_MEMORY_BYTES);
  spare = null;
  let sizeBytes = 0;
  for await (const piece of readBody(answer, bounds)) {
    const neededBytes = sizeBytes + piece.length;
    if (neededBytes > memory.length)
      memory = Buffer.concat([memory.subarray(0, sizeBytes)], Math.max(neededBytes, 2 * memory.length));
    memory.set(piece, sizeBytes);
    sizeBytes = neededBytes;
  }
  const used = use(memory.subarray(0, sizeBytes));
  if (memory.length <= MOST_SPARE_BYTES) spare = memory;
  return used;
}

function tooLarge({ origin, pathname }: URL): MirrorError {
  return new MirrorError(
    'service.answer_too_large',
    `The answer of ${origin}${pathname} is greater than ${formatSize(MAX_JSON_BYTES)}.`,
    { hint: 'No list of this service should be so large: look at the address in a browser.' },
  );
}

function tooSlow({ origin, pathname }: URL, durationMs: number): MirrorError {
  return new MirrorError(
    'service.timeout',
    `The answer of ${origin}${pathname} was not whole after ${formatDuration(durationMs)}.`,
    { hint: 'If the connection is always slow, raise service.timeout.' },
  );
}

/** Only a strong tag guarantees equal bytes (RFC 9110, section 8.8.1). */
export function strongTag(etag: string | undefined): string | null {
  return etag !== undefined && /^"[\u0021\u0023-\u007e]*"$/.test(etag) ? etag : null;
}

/** The time in a Date header (RFC 9110, sections 5.6.7 and 6.6.1), in milliseconds since the epoch; null if it is malformed. */
export function serviceTimeMs(header: string | undefined): number | null {
  const timeMs = header?.trim().endsWith('GMT') === true ? Date.parse(header) : Number.NaN;
  return Number.isNaN(timeMs) ? null : timeMs;
}
