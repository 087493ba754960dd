import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** The body of a reply, whole and in memory. */
export interface BufferedBody {
  readonly contentType: string;
  readonly bytes: Uint8Array;
  /** The same, packed by gzip (RFC 1952): once, however often it is asked for. Null where that saves nothing. */
  readonly packed: (() => Promise<Uint8Array>) | null;
  /** Entity tag (RFC 9110, section 8.8.3); null where nobody asks for the same thing again. */
  readonly etag: string | null;
}

/** Below this, in bytes, packing saves no packet. */
const LEAST_TO_PACK_BYTES = 1400;

const pack = promisify(gzip);

/**
 * Makes a body that is sent packed to clients that take gzip.
 * @param mark changes when the content does, and makes the tag; null for a body without one
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
    // A weak one: packed or not, it is the same.
    etag: mark === null ? null : `W/"${createHash('sha256').update(mark).digest('base64url').slice(0, 22)}"`,
  };
}

/** Makes a body that is always sent as it is. */
export function plainBody(contentType: string, content: string): BufferedBody {
  return { contentType, bytes: Buffer.from(content), packed: null, etag: null };
}
