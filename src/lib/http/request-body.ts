import type { IncomingMessage } from 'node:http';

import { invalid, RequestError, tooLarge } from './request-error.ts';

/**
 * The body of a request as it comes. A reader that stops early can still answer: Node's own iteration would cut the connection.
 * @throws RequestError 400 when the client breaks off before the end
 */
export async function* bodyOf(message: IncomingMessage): AsyncIterable<Uint8Array> {
  try {
    const chunks: AsyncIterable<Buffer> = message.iterator({ destroyOnReturn: false });
    yield* chunks;
  } catch (error) {
    throw message.complete ? error : brokenOff();
  }
  if (!message.complete) throw brokenOff();
}

function brokenOff(): RequestError {
  return new RequestError(400, 'interrupted', 'the request broke off before its end');
}

/** The first memory for a body, in bytes. */
const FIRST_ROOM_BYTES = 16 * 1024;

/** Collects bytes in one buffer: a list of chunks would take a hundred times the size of a body that comes byte by byte. */
class GatheredBytes {
  readonly #limitBytes: number;
  #room: Buffer = Buffer.alloc(0);
  #sizeBytes = 0;

  /** @param limitBytes the buffer grows no further in advance */
  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** The bytes so far, not copied. */
  get bytes(): Buffer {
    return this.#room.subarray(0, this.#sizeBytes);
  }

  /** Adds bytes at the end. */
  add(chunk: Uint8Array): void {
    const nextBytes = this.#sizeBytes + chunk.length;
    if (nextBytes > this.#room.length) {
      const wantedBytes = Math.min(this.#limitBytes, Math.max(this.#room.length * 2, FIRST_ROOM_BYTES));
      const next = Buffer.allocUnsafe(Math.max(nextBytes, wantedBytes));
      this.#room.copy(next, 0, 0, this.#sizeBytes);
      this.#room = next;
    }
    this.#room.set(chunk, this.#sizeBytes);
    this.#sizeBytes = nextBytes;
  }
}

/**
 * Reads the whole of a request's body.
 * @param limitBytes more than this is refused
 * @throws RequestError 413 for more than the limit
 */
export async function readBody(body: AsyncIterable<Uint8Array>, limitBytes: number): Promise<Buffer> {
  const gathered = new GatheredBytes(limitBytes);
  for await (const chunk of body) {
    if (gathered.bytes.length + chunk.length > limitBytes)
      throw tooLarge(`the body of this request may have ${limitBytes} bytes`);
    gathered.add(chunk);
  }
  return gathered.bytes;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Decodes a body; a byte order mark is left out. Any other encoding is refused: names would be stored with replacement characters.
 * @throws RequestError 400 for what is not UTF-8
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
 * Reads a body in JSON, whatever its content type says: clients differ, and only what it holds counts.
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
