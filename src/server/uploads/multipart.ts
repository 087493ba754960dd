import { invalid, RequestError } from '../../lib/http/request.ts';
import type { Bytes } from '../http/library.ts';

/** A field of a form, or a file. */
export interface FormPart {
  readonly name: string;
  /** Null for a field; empty if no file was chosen. */
  readonly fileName: string | null;
  /** Read it before the next part; an unread rest is skipped. */
  readonly bytes: Bytes;
}

/** The head of a part is two short lines. */
const HEAD_LIMIT_BYTES = 16 * 1024;

/** Reads chunks of bytes up to marks in them. */
class MarkedBytes {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Buffer;

  constructor(bytes: Bytes, first: Buffer) {
    this.#chunks = bytes[Symbol.asyncIterator]();
    this.#rest = first;
  }

  /** Gives the bytes before the next mark, piece by piece, and skips the mark. @throws RequestError 400 if there is none */
  async *until(mark: Buffer): Bytes {
    for (;;) {
      const at = this.#rest.indexOf(mark);
      // The last bytes may be the beginning of a mark.
      const end = at === -1 ? Math.max(0, this.#rest.length - mark.length + 1) : at;
      const piece = this.#rest.subarray(0, end);
      this.#rest = this.#rest.subarray(at === -1 ? end : at + mark.length);
      if (piece.length > 0) yield piece;
      if (at !== -1) return;
      await this.#readOn();
    }
  }

  /** Whether the given bytes come next; does not skip them. @throws RequestError 400 if it ends before that is clear */
  async goesOnWith(bytes: Buffer): Promise<boolean> {
    while (this.#rest.length < bytes.length) await this.#readOn();
    return this.#rest.subarray(0, bytes.length).equals(bytes);
  }

  async #readOn(): Promise<void> {
    const next = await this.#chunks.next();
    if (next.done === true) throw invalid('the form is incomplete');
    this.#rest = Buffer.concat([this.#rest, next.value]);
  }

  /** Drops the unread rest. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}

/** Reads a short text. @throws RequestError 413 for a longer one */
export async function readText(bytes: Bytes, limitBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of bytes) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes)
      throw new RequestError(413, 'too_large', `a field of the form may have ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** A parameter of Content-Disposition, as browsers write it (HTML, "multipart form data"). */
function parameterOf(head: string, name: string): string | null {
  const [, value = null] = new RegExp(`[; ]${name}="([^"\\r\\n]*)"`, 'i').exec(head) ?? [];
  return value?.replaceAll('%22', '"').replaceAll('%0D', '\r').replaceAll('%0A', '\n') ?? null;
}

/**
 * Reads the parts of a form (RFC 7578) as they arrive, in bounded memory.
 * @param contentType the header of that name
 * @throws RequestError 400 for an incomplete form, 415 for another type
 */
export async function* readForm(contentType: string, body: Bytes): AsyncGenerator<FormPart> {
  const [, quoted, bare] =
    /^multipart\/form-data;.*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? bare;
  if (boundary === undefined)
    throw new RequestError(415, 'invalid', 'the body must be of the type multipart/form-data');
  const line = Buffer.from('\r\n');
  const mark = Buffer.from(`\r\n--${boundary}`);
  const form = new MarkedBytes(body, line);
  try {
    await skip(form.until(mark));
    // Not every client ends the last line (RFC 2046, section 5.1.1).
    while (!(await form.goesOnWith(Buffer.from('--')))) {
      await readText(form.until(line), HEAD_LIMIT_BYTES);
      const head = await readText(form.until(Buffer.from('\r\n\r\n')), HEAD_LIMIT_BYTES);
      const bytes = form.until(mark);
      yield { name: parameterOf(head, 'name') ?? '', fileName: parameterOf(head, 'filename'), bytes };
      await skip(bytes);
    }
  } finally {
    await form.close();
  }
}

async function skip(bytes: Bytes): Promise<void> {
  for await (const _ of bytes);
}
