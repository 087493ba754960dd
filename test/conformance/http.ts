import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';

import { Agent, type Dispatcher, request } from 'undici';

import { NotApplicable, NotMet } from './verdict.ts';

/** An answer, read to its end. */
export interface Reply {
  readonly status: number;
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Without its content coding. */
  readonly body: Buffer;
}

/** A request for one origin. */
export interface Sent {
  readonly method?: 'GET' | 'HEAD' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The way to one origin, and to no other: redirects are answers like others. */
export interface Door {
  /** @throws NotMet for an answer that breaks off or is longer or shorter than it says, NotApplicable for one that is too great */
  readonly send: (address: URL, sent: Sent) => Promise<Reply>;
  readonly close: () => Promise<void>;
}

/** What bounds the requests. */
export interface DoorLimits {
  readonly timeoutMs: number;
  /** Greatest body, in bytes, before and after decoding. */
  readonly maxBodyBytes: number;
}

/** Opens the way to an origin. */
export function openDoor(origin: string, { timeoutMs, maxBodyBytes }: DoorLimits): Door {
  const agent = new Agent({
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    connect: { timeout: timeoutMs },
  });
  return {
    send: async (address, { method = 'GET', headers, body }) => {
      if (address.origin !== origin)
        throw new NotMet('it leads to another origin, where no credential may go');
      try {
        const answer = await request(address, {
          dispatcher: agent,
          method,
          headers,
          signal: AbortSignal.timeout(timeoutMs),
          ...(body === undefined ? {} : { body }),
        });
        return await readReply(answer, maxBodyBytes);
      } catch (error) {
        if (error instanceof NotMet || error instanceof NotApplicable) throw error;
        const why = error instanceof Error ? error.message : String(error);
        throw new NotMet(`no whole answer: ${why}`);
      }
    },
    close: () => agent.destroy(),
  };
}

async function readReply(answer: Dispatcher.ResponseData, maxBodyBytes: number): Promise<Reply> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBodyBytes) throw new NotApplicable(`the answer is greater than ${maxBodyBytes} bytes`);
    chunks.push(chunk);
  }
  const headers = Object.fromEntries(
    Object.entries(answer.headers).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.join(', ') : value,
    ]),
  );
  const body = decoded(Buffer.concat(chunks), headers['content-encoding'], maxBodyBytes);
  return { status: answer.statusCode, headers, body };
}

function decoded(body: Buffer, coding: string | undefined, maxOutputLength: number): Buffer {
  if (body.length === 0) return body;
  switch (coding?.trim().toLowerCase() ?? '') {
    case '':
    case 'identity':
      return body;
    case 'gzip':
    case 'x-gzip':
      return gunzipSync(body, { maxOutputLength });
    case 'deflate':
      return inflateSync(body, { maxOutputLength });
    case 'br':
      return brotliDecompressSync(body, { maxOutputLength });
    default:
      throw new NotMet('it came in a content coding that was not asked for and is not known');
  }
}
