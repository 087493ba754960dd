import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import { MirrorError } from '../model/errors.ts';
import type { Answer } from './answer.ts';

type GitAnswer = Extract<Answer, { kind: 'git' }>;

/**
 * Sends an answer, in full or visibly broken.
 * @param withBody false for a HEAD request: the same headers, no body
 * @throws MirrorError `service.failed` when git ends before its first output; nothing has been sent then
 */
export async function sendAnswer(response: ServerResponse, answer: Answer, withBody: boolean): Promise<void> {
  if (answer.kind === 'git') {
    await sendGit(response, answer, withBody);
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

async function sendGit(response: ServerResponse, answer: GitAnswer, withBody: boolean): Promise<void> {
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
  const { stdout, exit } = answer.start(gone.signal);
  const chunks = (stdout as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let chunk = await chunks.next();
  if (chunk.done === true) {
    const { code, complaint } = await exit;
    if (gone.signal.aborted) return;
    if (code !== 0) throw new MirrorError('service.failed', `git gave no content: ${complaint}`);
  }
  response.writeHead(answer.status, head);
  try {
    for (; chunk.done !== true; chunk = await chunks.next()) {
      // A client that reads slowly stops git, by way of the pipe, instead of filling the memory.
      if (!response.write(chunk.value)) await once(response, 'drain', { signal: gone.signal });
    }
    if ((await exit).code !== 0) throw new Error('git ended in the middle of its output');
    response.end();
  } catch {
    // Ending the answer properly would make a short one look whole; a client that is gone does not mind.
    response.destroy();
    // A pipe that nobody empties would keep the program, or what is left of it, from ever being done.
    stdout.destroy();
  }
}
