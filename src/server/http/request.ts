import type { IncomingMessage } from 'node:http';

import { splitTarget } from '../../lib/http/request.ts';

/** The path below which the API lies (service specification, section 1). */
export const BASE_PATH = '/api';

/** A request, as the code that answers it sees it. */
export interface ServiceRequest {
  readonly method: string;
  /** Path as it was sent, still encoded. */
  readonly path: string;
  /** Read on demand, which is only after the key was checked. */
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** The size of its body is not limited yet. */
  readonly body: IncomingMessage;
}

/** Parses a request. */
export function serviceRequest(message: IncomingMessage): ServiceRequest {
  const { path, query } = splitTarget(message.url ?? '/');
  return {
    method: message.method ?? '',
    path,
    get query() {
      return new URLSearchParams(query);
    },
    headers: message.headers,
    body: message,
  };
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
