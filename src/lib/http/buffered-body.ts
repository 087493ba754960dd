import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The body of a reply, whole and in memory. */
export interface BufferedBody {
  readonly contentType: string;
  readonly bytes: Uint8Array;
  /** The same, compressed by gzip (RFC 1952): once for all requests. Null if that saves nothing. */
  readonly packed: (() => Promise<Uint8Array>) | null;
  /** Entity tag (RFC 9110, section 8.8.3); null if clients never request the same content again. */
  readonly etag: string | null;
}

/** Below this, in bytes, compression saves no packet. */
const LEAST_TO_PACK_BYTES = 1400;

const pack = promisify(gzip);

/**
 * Makes a body that is sent compressed to clients that accept gzip.
 * @param mark changes with the content, and gives the tag; null for a body without one
 */
export function packableBody(
  contentType: string,
  content: string | Uint8Array,
  mark: string | Uint8Array | null = null,
): BufferedBody {
  const bytes = Buffer.from(content);
  let packed: Promise<Uint8Array> | null = null;
  return {
    contentType,
    bytes,
    packed: bytes.length < LEAST_TO_PACK_BYTES ? null : () => (packed ??= pack(bytes)),
    // A weak one: compressed or not, it is the same.
    etag: mark === null ? null : `W/"${createHash('sha256').update(mark).digest('base64url').slice(0, 22)}"`,
  };
}

/** Makes a body that is always sent unchanged. */
export function plainBody(contentType: string, content: string): BufferedBody {
  return { contentType, bytes: Buffer.from(content), packed: null, etag: null };
}
