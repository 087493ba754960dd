import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** What an answer holds. */
export interface Body {
  readonly contentType: string;
  readonly plain: Uint8Array;
  /** The same, packed by gzip (RFC 1952): once, however often it is asked for. */
  readonly packed: () => Promise<Uint8Array>;
  /** Names the contents (RFC 9110, 8.8.3); null where nobody asks for the same thing again. */
  readonly etag: string | null;
}

const pack = promisify(gzip);

/** Makes a body. @param mark text that is the same as long as what the body says is; null for none */
export function createBody(
  contentType: string,
  content: string | Uint8Array,
  mark: string | null = null,
): Body {
  const plain = typeof content === 'string' ? Buffer.from(content) : content;
  let packed: Promise<Uint8Array> | null = null;
  return {
    contentType,
    plain,
    packed: () => (packed ??= pack(plain)),
    // A weak one: packed or not, it is the same.
    etag: mark === null ? null : `W/"${createHash('sha256').update(mark).digest('base64url').slice(0, 22)}"`,
  };
}

/** A body in JSON. @param mark as in {@link createBody} */
export function jsonBody(value: unknown, mark: string | null = null): Body {
  return createBody('application/json; charset=utf-8', JSON.stringify(value), mark);
}

/** A body for people: one line. */
export function textBody(line: string): Body {
  return createBody('text/plain; charset=utf-8', `${line}\n`);
}
