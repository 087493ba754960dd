import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { Answer } from './answer.ts';

type StreamAnswer = Extract<Answer, { kind: 'stream' }>;

/**
 * Sends an answer, in full or visibly broken.
 * @param withBody false for a HEAD request: the same headers, no body
 * @throws what the body throws before its first bytes; nothing has been sent then
 */
export async function sendAnswer(response: ServerResponse, answer: Answer, withBody: boolean): Promise<void> {
  if (answer.kind === 'stream') {
    await sendStream(response, answer, withBody);
    return;
  }
  const headers: Record<string, string | number> = { ...answer.headers };
  let body: Uint8Array = new Uint8Array();
  if (answer.kind === 'json') {
    body = Buffer.from(JSON.stringify(answer.body));
    headers['content-type'] = 'application/json';
  } else if (answer.kind === 'bytes') {
    body = answer.body;
  }
  if (answer.kind !== 'bare') headers['content-length'] = body.length;
  response.writeHead(answer.status, headers);
  response.end(withBody ? body : undefined);
}

async function sendStream(response: ServerResponse, answer: StreamAnswer, withBody: boolean): Promise<void> {
  const length = answer.lengthBytes === undefined ? {} : { 'content-length': answer.lengthBytes };
  const head = { ...answer.headers, ...length };
  if (!withBody) {
    response.writeHead(answer.status, head);
    response.end();
    return;
  }
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  if (response.destroyed) return;
  const chunks = answer.open(gone.signal)[Symbol.asyncIterator]();
  let chunk: IteratorResult<Uint8Array>;
  try {
    chunk = await chunks.next();
  } catch (error) {
    if (gone.signal.aborted) return;
    throw error;
  }
  response.writeHead(answer.status, head);
  try {
    for (; chunk.done !== true; chunk = await chunks.next()) {
      // A client that reads slowly stops what makes the bytes, instead of filling the memory.
      if (!response.write(chunk.value)) await once(response, 'drain', { signal: gone.signal });
    }
    response.end();
  } catch {
    // Ending the answer properly would make a short one look whole; a client that is gone does not mind.
    response.destroy();
    await chunks.return?.().catch(() => undefined);
  }
}
