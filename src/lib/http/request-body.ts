import type { IncomingMessage } from 'node:http';

import { invalid, RequestError, tooLarge } from './request-error.ts';

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
 * @throws RequestError 413 for more than the limit
 */
export async function readBody(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  let room = Buffer.alloc(0);
  let sizeBytes = 0;
  for await (const chunk of body) {
    const nextBytes = sizeBytes + chunk.length;
    if (nextBytes > limitBytes) throw tooLarge(`the body of this request may have ${limitBytes} bytes`);
    if (nextBytes > room.length) room = Buffer.concat([room], Math.max(nextBytes, 2 * room.length));
    room.set(chunk, sizeBytes);
    sizeBytes = nextBytes;
  }
  return room.subarray(0, sizeBytes);
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Decodes a body; a byte order mark is left out. Any other encoding is refused: names would be stored with replacement characters.
 * @throws RequestError 400 for a body that is not UTF-8
 */
export function textOfBody(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw invalid(
      'the body of this request must be UTF-8: send its text as UTF-8 bytes (Windows PowerShell 5.1 sends Latin-1 otherwise)',
    );
  }
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
