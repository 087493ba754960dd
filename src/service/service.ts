import { createServer, type Server } from 'node:http';

import { MirrorError } from '../model/errors.ts';
import { type Context, handle } from './handler.ts';
import type { Keys } from './keys.ts';
import type { Changes, Library } from './library.ts';
import type { PageFiles } from './page.ts';
import { BASE_PATH } from './routes.ts';

/** What is known of a request once it has been answered. */
export interface RequestInfo {
  readonly method: string;
  /** Path and query as they were sent; no credential travels there. */
  readonly path: string;
  /** HTTP status code of the answer, also when the client did not wait for all of it. */
  readonly status: number;
  readonly durationMs: number;
  /** Why the service itself failed, when it did. */
  readonly error?: unknown;
}

/** What a service is made from. */
export interface ServiceOptions {
  readonly library: Library;
  /** Null or left out for a service that takes no changes. */
  readonly changes?: Changes | null;
  readonly keys: Keys;
  /** The page on which people upload; none if left out. */
  readonly page?: PageFiles;
  /** Rows on a page of v1 when the client does not say; 100 if left out. */
  readonly pageSize?: number;
  /** Called once a request, after its answer. */
  readonly onRequest?: (info: RequestInfo) => void;
}

/** The embedded service: the API of the workbook service, on whatever it is given. */
export interface Service {
  /**
   * Starts to answer.
   * @param where host name or address, and port, 0 for a free one
   * @returns the base address, which ends in `/api`
   * @throws MirrorError `settings.invalid` when the address is taken or not ours
   */
  readonly listen: (where: { host: string; port: number }) => Promise<{ baseUrl: string; port: number }>;
  /** Stops at once: open connections are cut. */
  readonly close: () => Promise<void>;
}

const DEFAULT_PAGE_SIZE = 100;
/** A connection on which nothing moves for so long is cut, and the git program behind it with it. */
const IDLE_LIMIT_MS = 300_000;
/** A file of some gigabytes over a slow line takes its time. */
const REQUEST_LIMIT_MS = 86_400_000;

/** @returns the port that was bound */
function listenOn(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const message = `the service cannot listen on ${host}, port ${port}: ${error.message}`;
      const hint = 'Choose another address or end the program that uses it.';
      reject(new MirrorError('settings.invalid', message, { cause: error, hint }));
    });
    server.listen({ host, port }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}

/** Makes the embedded service on a library, which stays the caller's to close. */
export function createService(options: ServiceOptions): Service {
  const context: Context = {
    library: options.library,
    changes: options.changes ?? null,
    keys: options.keys,
    page: options.page ?? null,
    pageSize: options.pageSize ?? DEFAULT_PAGE_SIZE,
  };
  const server = createServer((request, response) => {
    const startedAtMs = performance.now();
    const outcome = handle(context, request, response);
    response.once('close', () => {
      void outcome.then((error) =>
        options.onRequest?.({
          method: request.method ?? '',
          path: request.url ?? '',
          status: response.statusCode,
          durationMs: performance.now() - startedAtMs,
          ...(error === undefined ? {} : { error }),
        }),
      );
    });
  });
  server.timeout = IDLE_LIMIT_MS;
  server.requestTimeout = REQUEST_LIMIT_MS;

  return {
    async listen({ host, port }) {
      const boundPort = await listenOn(server, host, port);
      const shown = host.includes(':') ? `[${host}]` : host;
      return { baseUrl: `http://${shown}:${boundPort}${BASE_PATH}`, port: boundPort };
    },
    async close() {
      const closed = new Promise<void>((resolve) => {
        // The error says that it was not listening.
        server.close(() => resolve());
      });
      server.closeAllConnections();
      await closed;
    },
  };
}
