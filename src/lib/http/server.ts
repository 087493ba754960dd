import { once } from 'node:events';
import { createServer, type Server, type ServerOptions } from 'node:http';

import { MirrorError } from '../errors/errors.ts';

/** The limits of a server; times in milliseconds. */
export interface ServerLimits {
  /** More connections at once are closed as they come: each is a file descriptor, of which a process has few. */
  readonly maxConnections: number;
  /** How long a client may take to send the head of a request, and all of it; and how often that is looked at. */
  readonly timeouts: Pick<
    ServerOptions,
    'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout' | 'connectionsCheckingInterval'
  >;
  /** A connection on which nothing moves for so long is cut. */
  readonly idleMs: number;
}

/** A host name, or an address without brackets; and a port, 0 for a free one. */
export interface ListenPlace {
  readonly host: string;
  readonly port: number;
}

/** The setting that says where something listens. */
export interface ListenSetting {
  readonly name: string;
  /** A value that works. */
  readonly example: string;
  /** Whether it may be `off`. */
  readonly canBeOff: boolean;
}

/** An HTTP server with bounds on what strangers can use of it. */
export interface HttpServer {
  /** Its listener of `request` answers. */
  readonly node: Server;
  /**
   * Starts to answer. Where that failed it may be called again.
   * @returns the port
   * @throws MirrorError `http.unusable` where it cannot listen there now
   */
  readonly listen: (place: ListenPlace) => Promise<number>;
  /** Stops at once: open connections are cut. */
  readonly close: () => Promise<void>;
}

/**
 * Makes a server that does nothing yet.
 * @param setting says where it listens
 * @param onTrouble is called when a connection cannot be accepted, as for want of file descriptors, which is no reason to end
 */
export function createHttpServer(
  limits: ServerLimits,
  setting: ListenSetting,
  onTrouble: (error: Error) => void,
): HttpServer {
  const server = createBoundServer(limits);
  return {
    node: server,
    listen: async (place) => {
      const listening = once(server, 'listening');
      server.listen({ ...place });
      await listening.catch((error: Error) => {
        throw listenError(error, place, setting);
      });
      server.on('error', onTrouble);
      const address = server.address();
      return typeof address === 'object' && address !== null ? address.port : place.port;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => {
        // The error says that it was not listening.
        server.close(() => resolve());
      });
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A client may send the rest of a body that was not read for so long after the answer, in milliseconds, to read that then. */
const UNREAD_BODY_MS = 5000;

/** Makes a server with its limits, which listens nowhere yet. */
export function createBoundServer({ maxConnections, timeouts, idleMs }: ServerLimits): Server {
  const server = createServer(timeouts);
  server.maxConnections = maxConnections;
  server.timeout = idleMs;
  server.on('request', (request, response) => {
    // A request that is over may have no socket any more.
    const { socket } = request;
    response.once('finish', () => {
      if (!request.complete) setTimeout(() => request.complete || socket.destroy(), UNREAD_BODY_MS).unref();
    });
  });
  return server;
}

/** By the code of the system's error (listen(2), bind(2), getaddrinfo(3)). NAME is the setting, EXAMPLE a value that works. */
const REASONS: Readonly<Record<string, readonly [problem: string, advice: string, more?: string]>> = {
  EADDRINUSE: [
    'another program listens there already',
    'Choose another port for NAME',
    ', or end the other program: `ss -ltnp` names it',
  ],
  EACCES: [
    'this user may not listen there',
    'Choose a port from 1024 on for NAME',
    '; lower ones need a privilege (CAP_NET_BIND_SERVICE)',
  ],
  EADDRNOTAVAIL: [
    'this machine has no such address',
    'Give NAME an address of this machine, such as EXAMPLE',
  ],
  ENOTFOUND: [
    'this host name has no address',
    'Give NAME a host name that this machine knows, or an address',
  ],
  EAI_AGAIN: ['the host name cannot be resolved now', 'Give NAME an address instead of a name'],
  EAFNOSUPPORT: ['this machine has no IPv6', 'Give NAME an IPv4 address, such as EXAMPLE'],
};

/** Says why nothing can be served at an address: `http.unusable`. */
export function listenError(
  error: Error,
  { host, port }: ListenPlace,
  { name, example, canBeOff }: ListenSetting,
): MirrorError {
  const code = 'code' in error ? String(error.code) : '';
  const [problem, advice, more = ''] = REASONS[code] ?? [error.message, 'Choose another address for NAME'];
  const hint = advice.replace('NAME', name).replace('EXAMPLE', example) + (canBeOff ? ', or off' : '');
  return new MirrorError('http.unusable', `Cannot listen on ${host}, port ${port} (${name}): ${problem}.`, {
    cause: error,
    hint: `${hint}${more}.`,
  });
}
