import { roughDuration } from '../../lib/text/humanize.ts';

/** Headers of an answer, with names in lower case. */
export type AnswerHeaders = Readonly<Record<string, string | undefined>>;

/** Only a strong tag says that the bytes are the same (RFC 9110, section 8.8.1). */
export function strongTag(etag: string | undefined): string | null {
  return etag !== undefined && /^"[\u0021\u0023-\u007e]*"$/.test(etag) ? etag : null;
}

/** The length that an answer says its body has, before decoding; null where it says none. */
export function announcedBytes(headers: AnswerHeaders): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}

/** An answer that a cache between here and the service gave in place of the service (RFC 9111, section 5.1). */
export interface Cached {
  /** When the service gave it, in milliseconds since the epoch. */
  readonly asOfMs: number;
  /** The cache, as it names itself; null where it does not. */
  readonly via: string | null;
}

/** Older than anything that counts as fresh. An age that is far beyond that would make times that no clock shows. */
const MAX_AGE_MS = 365 * 24 * 3_600_000;

const MAX_NAME_LENGTH = 100;

/** Tells an answer that came from a cache, by `Age`. @param nowMs when it came, in milliseconds since the epoch */
export function cachedAnswer(headers: AnswerHeaders, nowMs: number): Cached | null {
  // Caches in a row may each have added a header: the first one counts (RFC 9111, section 5.1).
  const seconds = /^(\d+)\s*(?:,|$)/.exec(headers['age']?.trim() ?? '')?.[1];
  const ageMs = Math.min(Number(seconds ?? 0) * 1000, MAX_AGE_MS);
  if (ageMs === 0) return null;
  return { asOfMs: nowMs - ageMs, via: headers['via']?.slice(0, MAX_NAME_LENGTH) ?? null };
}

/** The older of two answers; null where neither came from a cache. */
export function olderOf(one: Cached | null, other: Cached | null): Cached | null {
  if (one === null || other === null) return one ?? other;
  return one.asOfMs <= other.asOfMs ? one : other;
}

/** Names a cache, at the beginning of a sentence. */
export function cacheName({ via }: Cached): string {
  return via === null ? 'A cache on the way' : `The cache ${JSON.stringify(via)} on the way (Via)`;
}

/** Names the cache and the age of its answer, as a sentence without its end. @param nowMs milliseconds since the epoch */
export function cachedSentence(cached: Cached, nowMs: number): string {
  const age = roughDuration(nowMs - cached.asOfMs);
  return `${cacheName(cached)} answered in place of the service, although it was asked not to: its answer was ${age} old, and so is all that follows from it. Let that cache keep nothing of the service`;
}
