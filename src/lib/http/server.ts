import { once } from 'node:events';
import { createServer, type Server, type ServerOptions } from 'node:http';

import { type ConnectionLimits, type Connections, limitConnections } from './connections.ts';
import { listenError, type ListenSetting } from './listen-error.ts';
import { cutUnreadBodies } from './unread-bodies.ts';

/** The limits of a server; times in milliseconds. */
export interface ServerLimits {
  readonly connections: ConnectionLimits;
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

/** An HTTP server with bounds on what strangers can use of it. */
export interface HttpServer {
  /** Its listener of `request` answers. */
  readonly node: Server;
  readonly connections: Connections;
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
  const server = createServer(limits.timeouts);
  server.timeout = limits.idleMs;
  const connections = limitConnections(server, limits.connections);
  cutUnreadBodies(server);
  return {
    node: server,
    connections,
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
