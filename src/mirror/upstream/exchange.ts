import { Readable } from 'node:stream';

import { type Dispatcher, errors } from 'undici';

import type { ReceiveBuffers } from './receive-buffers.ts';

/** A request as it goes over the wire. */
export interface WireRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** The body of a POST; undefined for GET. */
  readonly body: string | undefined;
  readonly signal: AbortSignal;
}

/** An answer as it comes over the wire. */
interface Exchanged {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Its pieces as they came, which undici's own `request` joins where several wait: that copies them into new memory. */
  readonly body: Readable;
}

/**
 * Sends a request once, and resolves when the headers of the answer have come.
 * @param buffers are told of each piece of the body
 * @param mostPieces how many of them may wait for their reader
 * @throws errors of undici; what the signal was aborted with
 */
export function exchange(
  dispatcher: Dispatcher,
  url: URL,
  { headers, body, signal }: WireRequest,
  buffers: ReceiveBuffers,
  mostPieces: number,
): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    let controller: Dispatcher.DispatchController | null = null;
    let received: Readable | null = null;
    const abort = (): void => {
      const reason = reasonOf(signal);
      if (received === null) controller?.abort(reason);
      else received.destroy(reason);
    };
    const leave = (): void => signal.removeEventListener('abort', abort);
    signal.addEventListener('abort', abort);
    const path = url.pathname + url.search;
    const sent = body === undefined ? ({ method: 'GET' } as const) : ({ method: 'POST', body } as const);
    dispatcher.dispatch(
      { origin: url.origin, path, headers, ...sent },
      {
        onRequestStart: (started) => {
          controller = started;
          if (signal.aborted) abort();
        },
        onResponseStart: (answered, status, answerHeaders) => {
          if (status < 200) return;
          received = bodyOf(answered, mostPieces).on('close', leave);
          resolve({ status, headers: answerHeaders, body: received });
        },
        onResponseData: (answered, piece) => {
          if (piece.length === 0) return;
          buffers.handOut(piece);
          if (received?.push(piece) === false) answered.pause();
        },
        onResponseEnd: () => {
          received?.push(null);
        },
        onResponseError: (_controller, error) => {
          leave();
          reject(error);
          // Who waits for the headers comes first, and listens.
          queueMicrotask(() => received?.destroy(error));
        },
      },
    );
  });
}

function bodyOf(controller: Dispatcher.DispatchController, mostPieces: number): Readable {
  const body = new Readable({
    objectMode: true,
    highWaterMark: mostPieces,
    read: () => controller.resume(),
    destroy: (error, done) => {
      const cause = error ?? (body.readableEnded ? null : new errors.RequestAbortedError());
      if (cause !== null) controller.abort(cause);
      done(cause);
    },
  });
  // It can fail before its reader has come, or when nobody reads it: that must not end the program.
  return body.on('error', () => {});
}

function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new errors.RequestAbortedError();
}
