import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** How many connections a server has. */
export interface ConnectionLimits {
  /** The most at once: a new one takes the place of one that is missed least. */
  readonly most: number;
  /** The most of them that are kept; fewer, so that there always are some that are not. */
  readonly mostKept: number;
}

/** The connections of a server. */
export interface Connections {
  /**
   * Keeps a connection until a request on it is answered: it gives its place to no other one. For those who may ask.
   * @returns false where as many are kept as can be
   */
  readonly keep: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/**
 * So many requests of one connection may wait for their answers (RFC 9112, section 9.3.2): hardly any client sends a second one. Node
 * takes as many as come, and each of them takes memory.
 */
const MOST_PIPELINED = 16;

interface Connection {
  /** Of the client. */
  readonly address: string;
  /** Requests that are being answered, and those among them for which it is kept. */
  answering: number;
  kept: number;
}

/**
 * Bounds the connections of a server: each is a file descriptor, of which a process has few. A client that opens many and sends
 * nothing keeps no other out: a new connection takes the place of the one that has been idle for longest, of the client that has most
 * of them; where none is idle, of one that is not kept. Where all are kept, the new one is refused. A connection with too many
 * requests at once is cut.
 * @param server one that answers nothing yet
 */
export function limitConnections(server: Server, { most, mostKept }: ConnectionLimits): Connections {
  // In the order in which they began to wait for a request.
  const connections = new Map<Socket, Connection>();
  let keptCount = 0;

  const forget = (socket: Socket): void => {
    if ((connections.get(socket)?.kept ?? 0) > 0) keptCount -= 1;
    connections.delete(socket);
  };
  const makeRoom = (): boolean => {
    const socket = leastMissed(connections);
    if (socket === null) return false;
    forget(socket);
    socket.destroy();
    return true;
  };

  server.on('connection', (socket) => {
    if (connections.size >= most && !makeRoom()) {
      socket.destroy();
      return;
    }
    connections.set(socket, { address: socket.remoteAddress ?? '', answering: 0, kept: 0 });
    socket.once('close', () => forget(socket));
  });
  server.on('request', ({ socket }, response) => {
    const connection = connections.get(socket);
    if (connection === undefined) return;
    connection.answering += 1;
    if (connection.answering > MOST_PIPELINED) {
      socket.destroy();
      return;
    }
    response.once('close', () => {
      connection.answering -= 1;
      if (connection.answering > 0 || !connections.delete(socket)) return;
      connections.set(socket, connection);
    });
  });
  return {
    keep: ({ socket }, response) => {
      const connection = connections.get(socket);
      // It is closed already.
      if (connection === undefined) return true;
      if (connection.kept === 0) {
        if (keptCount >= mostKept) return false;
        keptCount += 1;
      }
      connection.kept += 1;
      response.once('close', () => {
        connection.kept -= 1;
        if (connection.kept === 0 && connections.has(socket)) keptCount -= 1;
      });
      return true;
    },
  };
}

/** The connection that is to make room for another one; null where all are kept. */
function leastMissed(connections: ReadonlyMap<Socket, Connection>): Socket | null {
  const counts = new Map<string, number>();
  for (const { address } of connections.values()) counts.set(address, (counts.get(address) ?? 0) + 1);
  let chosen: { readonly socket: Socket; readonly isIdle: boolean; readonly count: number } | null = null;
  for (const [socket, { address, answering, kept }] of connections) {
    if (kept > 0) continue;
    const isIdle = answering === 0;
    const count = counts.get(address) ?? 0;
    const isBetter =
      chosen === null || (isIdle === chosen.isIdle ? count > chosen.count : isIdle && !chosen.isIdle);
    if (isBetter) chosen = { socket, isIdle, count };
  }
  return chosen?.socket ?? null;
}
