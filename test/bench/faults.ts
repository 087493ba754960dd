import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

import { numbersOf } from './random.ts';

/** What the service does wrong, as data. */
export type Fault =
  /** Every answer with contents ends after this share of the whole. */
  | { readonly kind: 'cut'; readonly share: number }
  /** The contents of some repositories come so slowly. */
  | { readonly kind: 'slow'; readonly fullNames: readonly string[]; readonly bytesPerSecond: number }
  /** This share of the answers is wrong, each in a way of its own, the same for the same seed. */
  | { readonly kind: 'any'; readonly share: number; readonly seed: string };

/** What becomes of a request. */
export interface Faults {
  /** Answers in the place of the service, or gives false. */
  readonly answers: (request: IncomingMessage, url: URL, response: ServerResponse) => boolean;
  /** Sends a body in the place of the service, or gives false. */
  readonly sends: (
    response: ServerResponse,
    name: string,
    sizeBytes: number,
    body: Buffer | NodeJS.ReadableStream,
  ) => boolean;
}

/** Makes the faults of a service; none if null. */
export function createFaults(fault: Fault | null): Faults {
  if (fault === null) return { answers: () => false, sends: () => false };
  switch (fault.kind) {
    case 'cut': {
      return {
        answers: () => false,
        sends: (response, _name, sizeBytes, body) => {
          void sendPart(response, body, Math.ceil(sizeBytes * fault.share));
          return true;
        },
      };
    }
    case 'slow': {
      return {
        answers: () => false,
        sends: (response, name, _sizeBytes, body) => {
          if (!fault.fullNames.includes(name)) return false;
          void sendSlowly(response, body, fault.bytesPerSecond);
          return true;
        },
      };
    }
    case 'any': {
      return anyOf(fault.share, fault.seed);
    }
  }
}

function anyOf(share: number, seed: string): Faults {
  const next = numbersOf(seed);
  const plain = (response: ServerResponse, status: number, text: string): true => {
    response.writeHead(status, { 'content-type': 'application/json', 'retry-after': '0' }).end(text);
    return true;
  };
  return {
    answers: (request, _url, response) => {
      if (next() >= share) return false;
      const way = next();
      if (way < 0.3) return plain(response, 500, '{"error": "internal"}');
      if (way < 0.5) return plain(response, 429, '{"error": "slow down"}');
      if (way < 0.7) return plain(response, 200, '{"count": 3, "results": [');
      if (way < 0.85) return plain(response, 502, '<html>Bad gateway</html>');
      request.socket.destroy();
      return true;
    },
    sends: (response, _name, sizeBytes, body) => {
      if (next() >= share) return false;
      void sendPart(response, body, Math.floor(sizeBytes * next()));
      return true;
    },
  };
}

function piecesOf(body: Buffer | NodeJS.ReadableStream): AsyncIterable<Buffer> {
  const source = Buffer.isBuffer(body) ? Readable.from([body]) : body;
  return source as AsyncIterable<Buffer>;
}

/** Sends the start of a body and breaks the connection, unless the body is no longer than that. */
async function sendPart(
  response: ServerResponse,
  body: Buffer | NodeJS.ReadableStream,
  partBytes: number,
): Promise<void> {
  let leftBytes = partBytes;
  for await (const piece of piecesOf(body)) {
    const isLast = piece.length > leftBytes;
    const part = isLast ? piece.subarray(0, leftBytes) : piece;
    leftBytes -= part.length;
    await new Promise((resolve) => {
      response.once('close', resolve);
      response.write(part, resolve);
    });
    if (response.destroyed) return;
    if (isLast) {
      response.destroy();
      return;
    }
  }
  response.end();
}

const SLOW_PIECES_PER_SECOND = 10;

async function sendSlowly(
  response: ServerResponse,
  body: Buffer | NodeJS.ReadableStream,
  bytesPerSecond: number,
): Promise<void> {
  const pieceBytes = Math.ceil(bytesPerSecond / SLOW_PIECES_PER_SECOND);
  for await (const chunk of piecesOf(body)) {
    for (let start = 0; start < chunk.length; start += pieceBytes) {
      if (response.destroyed) return;
      response.write(chunk.subarray(start, start + pieceBytes));
      await sleep(1000 / SLOW_PIECES_PER_SECOND);
    }
  }
  response.end();
}
