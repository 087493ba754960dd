import type { ServerResponse } from 'node:http';

/** The least time between two messages, and the time that a message waits for what it tells of to be seen, in milliseconds. */
const LEAST_GAP_MS = 1000;
/** Proxies cut connections on which nothing moves, often after a minute. */
const HEARTBEAT_MS = 15_000;
/** How long a browser waits before it connects again, in milliseconds. */
const RECONNECT_MS = 3000;
/** A client that leaves so much unread, in bytes, is gone. */
const MOST_UNREAD_BYTES = 16_384;

/** So many streams may be open: they leave most connections of the server to those who ask for health. */
const MOST_STREAMS = 100;

/** The open event streams. */
export interface EventStreams {
  /** Makes an answer, the head of which was sent, a stream; it is forgotten when its connection ends. */
  readonly add: (response: ServerResponse) => void;
  /** Whether as many are open as may be. */
  readonly isFull: () => boolean;
  /** Tells all of them, a second later, that something changed; changes until then are part of the same message. */
  readonly notify: () => void;
  /** Ends all of them at once. */
  readonly close: () => void;
}

/**
 * Makes the event streams (HTML Standard, 9.2): messages that hold nothing but their number. A page that receives one
 * asks for the status, so that nothing needs to be kept for pages that were not there.
 */
export function createEventStreams(): EventStreams {
  const streams = new Set<ServerResponse>();
  let changes = 0;
  let pending: NodeJS.Timeout | undefined;
  const send = (text: string): void => {
    for (const stream of streams) {
      if (stream.writableLength > MOST_UNREAD_BYTES) stream.destroy();
      else stream.write(text);
    }
  };
  const heartbeat = setInterval(send, HEARTBEAT_MS, ':\n\n').unref();
  return {
    add: (response) => {
      streams.add(response);
      response.once('close', () => streams.delete(response));
      response.write(`retry: ${RECONNECT_MS}\ndata: ${changes}\n\n`);
    },
    isFull: () => streams.size >= MOST_STREAMS,
    notify: () => {
      changes += 1;
      pending ??= setTimeout(() => {
        pending = undefined;
        send(`data: ${changes}\n\n`);
      }, LEAST_GAP_MS).unref();
    },
    close: () => {
      clearInterval(heartbeat);
      clearTimeout(pending);
      for (const stream of streams) stream.destroy();
    },
  };
}
