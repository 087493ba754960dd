import { invalid, readBody, RequestError, textOfBody } from '../../lib/http/request.ts';
import type { Bytes } from '../http/library.ts';

/** A field of a form, or a file. */
export interface FormPart {
  readonly name: string;
  /** Null for a field; empty if no file was chosen. */
  readonly fileName: string | null;
  /** Read it before the next part, or not at all: then it is skipped. */
  readonly bytes: Bytes;
}

const TEXT_LIMIT_BYTES = 64 * 1024;

/** Reads a field, or the head of a part. @throws RequestError 400 for one that is not UTF-8, 413 for a long one */
export async function readText(bytes: Bytes): Promise<string> {
  return textOfBody(await readBody(bytes, TEXT_LIMIT_BYTES, 'a field of the form'));
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
  const chunks = body[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.from('\r\n');
  const readOn = async (): Promise<void> => {
    const next = await chunks.next();
    if (next.done === true) throw invalid('the form is incomplete');
    rest = Buffer.concat([rest, next.value]);
  };
  /** Gives the bytes before the next mark, piece by piece, and skips the mark. */
  async function* until(text: string): Bytes {
    const mark = Buffer.from(text);
    for (;;) {
      const at = rest.indexOf(mark);
      // The last bytes may be the beginning of a mark.
      const end = at === -1 ? Math.max(0, rest.length - mark.length + 1) : at;
      const piece = rest.subarray(0, end);
      rest = rest.subarray(at === -1 ? end : at + mark.length);
      if (piece.length > 0) yield piece;
      if (at !== -1) return;
      await readOn();
    }
  }
  let bytes = until(`\r\n--${boundary}`);
  try {
    for (;;) {
      for await (const _ of bytes);
      while (rest.length < 2) await readOn();
      // Not every client ends the last line (RFC 2046, section 5.1.1).
      if (rest.toString('latin1', 0, 2) === '--') return;
      await readText(until('\r\n'));
      const head = await readText(until('\r\n\r\n'));
      bytes = until(`\r\n--${boundary}`);
      yield { name: parameterOf(head, 'name') ?? '', fileName: parameterOf(head, 'filename'), bytes };
    }
  } finally {
    await chunks.return?.();
  }
}
