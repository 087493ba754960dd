import { hostname } from 'node:os';

import { createHttpServer, type ListenPlace, type ServerPatience } from '../../lib/http/server.ts';
import { splitTarget } from '../../lib/http/request.ts';
import { handle, type Sources } from './handler.ts';
import { BASE_PATH } from './messages.ts';

/** A request that was answered. */
export interface RequestInfo {
  readonly method: string;
  /** As it was sent, without the query. */
  readonly path: string;
  /** HTTP status code of the answer, also if the client disconnected early. */
  readonly status: number;
  readonly durationMs: number;
  /** Address of the connection: the proxy's, if there is one. */
  readonly address: string | null;
  /** Why the service itself failed, when it did. */
  readonly error?: unknown;
}

export interface ServiceOptions extends Sources {
  /** Called once per request, after its answer. */
  readonly onRequest?: (info: RequestInfo) => void;
  /** Called when a connection cannot be accepted, for example for lack of file descriptors. */
  readonly onTrouble?: (error: Error) => void;
}

/** A push or file of some gigabytes takes long; a git program that is silent for some minutes is ended with its connection. */
const PATIENCE: ServerPatience = { requestMs: 3_600_000, idleMs: 300_000 };

/** Addresses that stand for all of a machine's (RFC 1122, section 3.2.1.3; RFC 4291, section 2.5.2). */
const ALL_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

/** The host under which others reach a server that listens on a given one. */
export function reachableHost(host: string, machine: string = hostname()): string {
  const named = ALL_ADDRESSES.has(host) && /^[\w.-]+$/.test(machine) ? machine : host;
  return named.includes(':') ? `[${named}]` : named;
}

/** Makes the embedded service, the API of the workbook service, on a library; the caller closes the library. */
export function createService(options: ServiceOptions) {
  const server = createHttpServer(PATIENCE, 'serve.listen', (error) => options.onTrouble?.(error));
  server.node.on('request', (request, response) => {
    const startedAtMs = performance.now();
    // A socket that is closed has no address any more.
    const address = request.socket.remoteAddress ?? null;
    const outcome = handle(options, request, response);
    response.once('close', () => {
      void outcome.then((error) =>
        options.onRequest?.({
          method: request.method ?? '',
          path: splitTarget(request.url ?? '/').path,
          status: response.statusCode,
          durationMs: performance.now() - startedAtMs,
          address,
          ...(error === undefined ? {} : { error }),
        }),
      );
    });
  });
  return {
    /**
     * Starts to answer.
     * @returns the base address, which ends in `/api`; it names the machine if it listens on all addresses
     * @throws MirrorError `http.unusable` when the address is taken or not ours
     */
    listen: async (place: ListenPlace) => {
      const port = await server.listen(place);
      return { baseUrl: `http://${reachableHost(place.host)}:${port}${BASE_PATH}`, port };
    },
    /** Stops at once: open connections are cut. */
    close: server.close,
  };
}
