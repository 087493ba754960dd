import { once } from 'node:events';
import type { Server } from 'node:http';

import { MirrorError } from '../errors/errors.ts';
import { createServer } from './node-http.ts';

/** How long clients of a server may take, in milliseconds. */
export interface ServerPatience {
  /** For a whole request, from its first byte to its last. */
  readonly requestMs: number;
  /** For a connection without traffic; 0 for any time. */
  readonly idleMs: number;
}

/**
 * Limits on what strangers can use of each server; times in milliseconds. Node closes connections that exceed them. Each connection is
 * a file descriptor, and a process on Linux has at least 1024 of them.
 */
const MAX_CONNECTIONS = 200;
const TIMEOUTS = { headersTimeout: 10_000, keepAliveTimeout: 5000, connectionsCheckingInterval: 5000 };

/** Answers that a client without a key can get, and how long it may go on with the body of such a request, in milliseconds. */
const WITHOUT_KEY: ReadonlySet<number> = new Set([200, 304, 401, 403, 404, 405, 415]);
const UNREAD_BODY_MS = 30_000;

/** A host name, or an address without brackets; and a port, 0 for a free one. */
export interface ListenPlace {
  readonly host: string;
  readonly port: number;
}

/**
 * Makes a server with limits on what strangers can use of it, which is not listening yet.
 * @param setting the name of the setting for the listening address
 * @param onTrouble is called if a connection cannot be accepted, for example for lack of file descriptors; the server continues
 */
export function createHttpServer(
  patience: ServerPatience,
  setting: string,
  onTrouble: (error: Error) => void,
) {
  const server = createBoundServer(patience);
  return {
    /** Its `request` listener answers. */
    node: server,
    /**
     * Starts to answer. If that fails it may be called again.
     * @returns the port
     * @throws MirrorError `http.unusable` if it cannot listen there now
     */
    listen: async (place: ListenPlace): Promise<number> => {
      const listening = once(server, 'listening');
      server.listen({ ...place });
      await listening.catch((error: Error) => {
        throw listenError(error, place, setting);
      });
      server.on('error', onTrouble);
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : place.port;
    },
    /** Stops immediately: open connections are cut. */
    close: async (): Promise<void> => {
      server.closeAllConnections();
      // The error means that it was not listening.
      await new Promise<unknown>((resolve) => server.close(resolve));
    },
  };
}

/** Makes a server with its limits, which is not listening yet. */
export function createBoundServer({ requestMs, idleMs }: ServerPatience): Server {
  const server = createServer({ ...TIMEOUTS, requestTimeout: requestMs });
  server.maxConnections = MAX_CONNECTIONS;
  server.timeout = idleMs;
  server.on('request', (request, response) => {
    const cut = (): void => {
      if (!request.complete) request.socket.destroy();
    };
    response.once('finish', () => {
      if (WITHOUT_KEY.has(response.statusCode) && !request.complete) setTimeout(cut, UNREAD_BODY_MS).unref();
    });
  });
  return server;
}

/** By the code of the system's error (bind(2)); the messages of others say enough. NAME is the setting. */
const REASONS: Readonly<Record<string, readonly [problem: string, advice: string]>> = {
  EADDRINUSE: [
    'another program listens there already',
    'Choose another port for NAME, or end the other program: `ss -ltnp` names it.',
  ],
  EACCES: [
    'this user may not listen there',
    'Choose a port from 1024 on for NAME; lower ones need a privilege (CAP_NET_BIND_SERVICE).',
  ],
};

/** The error `http.unusable` with the reason why an address cannot be used. */
export function listenError(error: Error, { host, port }: ListenPlace, setting: string): MirrorError {
  const code = 'code' in error ? String(error.code) : '';
  const [problem, advice] = REASONS[code] ?? [
    error.message,
    `Give NAME an address of this machine, such as 127.0.0.1:${port}.`,
  ];
  const message = `Cannot listen on ${host}, port ${port} (${setting}): ${problem}.`;
  return new MirrorError('http.unusable', message, { cause: error, hint: advice.replace('NAME', setting) });
}
