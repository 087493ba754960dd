import type { ServerResponse } from 'node:http';

/** Shortest time between messages, and the delay of a message until its change is visible, in milliseconds. */
const LEAST_GAP_MS = 1000;
/** Proxies cut idle connections, often after a minute. */
const HEARTBEAT_MS = 15_000;
/** How long a browser waits before it connects again, in milliseconds. */
const RECONNECT_MS = 3000;
/** A client that leaves this many bytes unread is disconnected. */
const MOST_UNREAD_BYTES = 16_384;

/** Most open streams: they leave most connections of the server free for health checks. */
const MOST_STREAMS = 100;

/** The open event streams. */
export type EventStreams = ReturnType<typeof createEventStreams>;

/**
 * Makes the event streams (HTML Standard, 9.2): messages that contain only their number. A page that receives one
 * requests the status, so that nothing must be stored for disconnected pages.
 */
export function createEventStreams() {
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
    /** Turns an answer, whose head was sent, into a stream; it is removed when its connection ends. */
    add: (response: ServerResponse): void => {
      streams.add(response);
      response.once('close', () => streams.delete(response));
      response.write(`retry: ${RECONNECT_MS}\ndata: ${changes}\n\n`);
    },
    /** Whether the limit is reached. */
    isFull: (): boolean => streams.size >= MOST_STREAMS,
    /** Notifies all of them of a change, a second later; changes until then share the message. */
    notify: (): void => {
      changes += 1;
      pending ??= setTimeout(() => {
        pending = undefined;
        send(`data: ${changes}\n\n`);
      }, LEAST_GAP_MS).unref();
    },
    /** Ends all of them immediately. */
    close: (): void => {
      clearInterval(heartbeat);
      clearTimeout(pending);
      for (const stream of streams) stream.destroy();
    },
  };
}
