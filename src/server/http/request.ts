import type { IncomingMessage } from 'node:http';

import type { KnownKey } from '../keys/keys.ts';

/** The path below which the API lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** A request whose key was checked, if its route needs one. */
export interface ServiceRequest {
  readonly method: string;
  /** Path as it was sent, still encoded. */
  readonly path: string;
  /** The named groups of the route's path, still encoded. */
  readonly parts: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The size of its body is not limited yet. */
  readonly body: IncomingMessage;
  /** The valid keys. */
  readonly keys: readonly KnownKey[];
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal;
}

/** Address of the request as the client wrote it, for references to other pages. */
export function addressOf({ body, headers, path, query }: ServiceRequest): URL {
  const { localAddress = '127.0.0.1', localPort = 80 } = body.socket;
  const own = `${localAddress.includes(':') ? `[${localAddress}]` : localAddress}:${localPort}`;
  const said = `http://${headers.host ?? own}`;
  const address = new URL(URL.canParse(said) ? said : `http://${own}`);
  address.pathname = path;
  address.search = query.toString();
  return address;
}
