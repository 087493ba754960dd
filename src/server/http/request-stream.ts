import type { IncomingMessage } from 'node:http';

import type { Bytes } from './library.ts';
import { RequestError } from './request-error.ts';

/**
 * The body of a request as it comes. Whoever stops to read it can still answer: Node's own iteration would cut the connection.
 * @throws RequestError 400 when the client breaks off before the end
 */
export async function* bodyOf(message: IncomingMessage): Bytes {
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
