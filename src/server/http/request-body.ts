import { RequestError } from './request-error.ts';
import type { Bytes } from './library.ts';

/** What is set aside for a body at first, in bytes. */
const FIRST_ROOM_BYTES = 16 * 1024;

/**
 * Reads the whole of a request's body.
 * @param limitBytes more than this is refused
 * @throws RequestError 413 for more than the limit
 */
export async function readBody(body: Bytes, limitBytes: number): Promise<Buffer> {
  // Into one place: a body that comes byte by byte would take a hundred times its size as a list of chunks.
  let room: Buffer = Buffer.alloc(0);
  let sizeBytes = 0;
  for await (const chunk of body) {
    const nextBytes = sizeBytes + chunk.length;
    if (nextBytes > limitBytes) {
      throw new RequestError(413, 'too_large', `the body of this request may have ${limitBytes} bytes`, {
        connection: 'close',
      });
    }
    if (nextBytes > room.length) room = grown(room, sizeBytes, nextBytes, limitBytes);
    room.set(chunk, sizeBytes);
    sizeBytes = nextBytes;
  }
  return room.subarray(0, sizeBytes);
}

/** A greater place with what is in the present one. */
function grown(room: Buffer, usedBytes: number, neededBytes: number, limitBytes: number): Buffer {
  const wantedBytes = Math.max(neededBytes, room.length * 2, FIRST_ROOM_BYTES);
  const next = Buffer.allocUnsafe(Math.min(limitBytes, wantedBytes));
  room.copy(next, 0, 0, usedBytes);
  return next;
}

/**
 * Reads a body in JSON, whatever its content type says: clients differ, and only what it holds counts.
 * @throws RequestError 400 for anything but JSON, 413 for more than the limit
 */
export async function readJson(body: Bytes, limitBytes: number): Promise<unknown> {
  const text = (await readBody(body, limitBytes)).toString('utf8');
  try {
    return JSON.parse(text);
  } catch {
    throw new RequestError(400, 'invalid', 'the body of this request must be JSON');
  }
}
