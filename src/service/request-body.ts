import { RequestError } from './request-error.ts';
import type { Bytes } from './library.ts';

/**
 * Reads the whole of a request's body.
 * @param limitBytes more than this is refused
 * @throws RequestError 413 for more than the limit
 */
export async function readBody(body: Bytes, limitBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) {
      throw new RequestError(413, 'too_large', `the body of this request may have ${limitBytes} bytes`, {
        connection: 'close',
      });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
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
