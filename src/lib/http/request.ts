import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';

/** A request that is answered with an error; not an error of the service itself. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  /** HTTP status code. */
  readonly status: number;
  /** Stable word for programs, in the answer beside the message. */
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  /** @param message advice for a person */
  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** The refusal of a malformed request. */
export function invalid(message: string): RequestError {
  return new RequestError(400, 'invalid', message);
}

/** The refusal of a request that is too large; the rest of it is not read. */
export function tooLarge(message: string): RequestError {
  return new RequestError(413, 'too_large', message, { connection: 'close' });
}

/**
 * The body of a request as it arrives. A reader that stops early can still answer: Node's own iteration would cut the connection. The
 * rest is thrown away, for clients that read no answer before they have sent everything.
 * @throws RequestError 400 if the client breaks off before the end
 */
export async function* bodyOf(message: IncomingMessage): AsyncIterable<Uint8Array> {
  try {
    const chunks: AsyncIterable<Buffer> = message.iterator({ destroyOnReturn: false });
    yield* chunks;
  } catch (error) {
    throw message.complete ? error : brokenOff();
  } finally {
    message.resume();
  }
  if (!message.complete) throw brokenOff();
}

function brokenOff(): RequestError {
  return new RequestError(400, 'interrupted', 'the request broke off before its end');
}

/**
 * Reads the whole body of a request into one buffer: a list of chunks would take a hundred times the size if a body arrives byte by
 * byte.
 * @param limitBytes a longer body is refused
 * @param what names it in the refusal
 * @throws RequestError 413 for more than the limit
 */
export async function readBody(
  body: AsyncIterable<Uint8Array>,
  limitBytes: number,
  what = 'the body of this request',
): Promise<Buffer> {
  let room = Buffer.alloc(0);
  let sizeBytes = 0;
  for await (const chunk of body) {
    const nextBytes = sizeBytes + chunk.length;
    if (nextBytes > limitBytes) throw tooLarge(`${what} may have ${limitBytes} bytes`);
    if (nextBytes > room.length) room = Buffer.concat([room], Math.max(nextBytes, 2 * room.length));
    room.set(chunk, sizeBytes);
    sizeBytes = nextBytes;
  }
  return room.subarray(0, sizeBytes);
}

/**
 * Decodes a body; a byte order mark is left out. Any other encoding is refused: names would be stored with replacement characters.
 * @throws RequestError 400 for a body that is not UTF-8
 */
export function textOfBody(bytes: Uint8Array): string {
  if (!isUtf8(bytes))
    throw invalid(
      'the body of this request must be UTF-8: send its text as UTF-8 bytes (Windows PowerShell 5.1 sends Latin-1 otherwise)',
    );
  return new TextDecoder().decode(bytes);
}

/**
 * Reads a body in JSON, with any content type: clients differ, and only the content counts.
 * @throws RequestError 400 for anything but JSON in UTF-8, 413 for more than the limit
 */
export async function readJson(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<unknown> {
  const text = textOfBody(await readBody(body, limitBytes));
  try {
    return JSON.parse(text);
  } catch {
    throw invalid('the body of this request must be JSON');
  }
}

/**
 * Splits a request target into its path, encoded and not normalised (`..` and `//` stay), and its query without the question mark.
 * @param target from the request line; with scheme and host if it came for a proxy (RFC 9112, section 3.2.2)
 */
export function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const local = target.replace(/^https?:\/\/[^/?#]*/i, '');
  const mark = local.indexOf('?');
  const [path, query] = mark === -1 ? [local, ''] : [local.slice(0, mark), local.slice(mark + 1)];
  return { path: path === '' ? '/' : path, query };
}
