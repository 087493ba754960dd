import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  request as ask,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { MirrorError } from '../../lib/errors/errors.ts';
import { createDial, DialError, type DialOptions } from './dialing.ts';
import type { Destination } from '../../lib/net/operators-proxy.ts';

export interface ForwardProxyOptions extends DialOptions {
  /** How long a connection may take to be made, in milliseconds. */
  readonly limitMs?: number;
  /** A connection that cannot be made is said to be so after so long, or later, in milliseconds. */
  readonly leastFailureMs?: number;
}

/** Shorter than the time that somebody waits for an answer to the creation of a repository. */
const LIMIT_MS = 10_000;

/** Neighbours answer sooner than strangers, and what is refused by a rule the soonest: all that is rounded up. */
const LEAST_FAILURE_MS = 1000;

const USER = 'git';

/** Headers that are for the next hop alone (RFC 9110, sections 7.6.1 and 10.1.1). */
const HOP_HEADERS = /^(?:connection|expect|keep-alive|proxy-.*|te|trailer|upgrade)$/i;

function endToEnd({ rawHeaders }: IncomingMessage): string[] {
  return rawHeaders.filter((_, index) => !HOP_HEADERS.test(rawHeaders[index - (index % 2)] ?? ''));
}

/** Reads the destination of a request; null for a request that is not for a proxy. */
function destinationOf({ method, url = '' }: IncomingMessage): Destination | null {
  if (method !== 'CONNECT') {
    const target = URL.parse(url);
    if (target?.protocol !== 'http:') return null;
    const port = target.port === '' ? 80 : Number(target.port);
    return { protocol: 'http:', host: target.hostname.replace(/^\[(.*)\]$/, '$1'), port };
  }
  const [, bracketed, name, port] = /^(?:\[([^[\]]+)\]|([^:]+)):(\d{1,5})$/.exec(url) ?? [];
  const host = bracketed ?? name;
  if (host === undefined || Number(port) > 65_535) return null;
  return { protocol: 'https:', host, port: Number(port) };
}

/** The connections of one passage. */
type Route = ReturnType<typeof createRoute>;

function createRoute(options: ForwardProxyOptions) {
  const { limitMs = LIMIT_MS, leastFailureMs = LEAST_FAILURE_MS } = options;
  const dial = createDial(options);
  const closing = new AbortController();
  const held = new Set<Duplex>();
  let trouble: string | null = null;

  function hold(socket: Duplex): void {
    if (held.has(socket)) return;
    held.add(socket);
    socket.on('error', () => undefined).once('close', () => held.delete(socket));
    if (closing.signal.aborted) socket.destroy();
  }

  async function reach(to: Destination): Promise<Socket | null> {
    const soonest = sleep(leastFailureMs, undefined, { signal: closing.signal }).catch(() => undefined);
    const late = `no connection to ${to.host}, port ${to.port}, within ${limitMs / 1000} seconds`;
    // It holds meanwhile for who has no more time.
    trouble = late;
    try {
      const socket = await dial(to, AbortSignal.any([closing.signal, AbortSignal.timeout(limitMs)]));
      trouble = null;
      hold(socket);
      return socket;
    } catch (error) {
      trouble = error instanceof DialError ? error.message : late;
      await soonest;
      return null;
    }
  }

  return {
    /** Connects; gives null where no connection can be made. */
    reach,
    /** Makes a connection end with the passage. */
    hold,
    trouble: (): string | null => trouble,
    close(): void {
      closing.abort();
      for (const socket of held) socket.destroy();
    },
  };
}

/** Passes what comes from either side on to the other one, until both have ended or one is broken off. */
async function join(one: Duplex, other: Duplex): Promise<void> {
  await Promise.allSettled([pipeline(one, other), pipeline(other, one)]);
  one.destroy();
  other.destroy();
}

/** Makes a connection for a client that asks by CONNECT; the bytes that go through it are not looked at. */
async function tunnel(route: Route, to: Destination, client: Duplex, head: Buffer): Promise<void> {
  route.hold(client);
  const server = await route.reach(to);
  if (server === null) {
    client.end('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n');
    return;
  }
  client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
  if (head.length > 0) server.write(head);
  await join(client, server);
}

/** Passes a request on that is not encrypted, and its answer back. */
async function relay(
  route: Route,
  to: Destination,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  route.hold(request.socket);
  const socket = await route.reach(to);
  if (socket === null) {
    response.writeHead(502).end();
    return;
  }
  const { pathname, search } = new URL(request.url ?? '');
  const outgoing = ask({
    createConnection: () => socket,
    method: request.method ?? 'GET',
    path: pathname + search,
    headers: endToEnd(request),
    setHost: false,
  });
  try {
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve).once('error', reject);
    });
    // An answer may come before all is sent, and whoever gives it may want no more.
    pipeline(request, outgoing).catch(() => undefined);
    const answer = await answered;
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? '', endToEnd(answer));
    await pipeline(answer, response);
  } catch {
    // Half an answer must not look like a whole one.
    response.destroy();
  } finally {
    socket.destroy();
  }
}

function startServer(routes: ReadonlyMap<string, Route>): Server {
  const routeOf = ({ headers }: IncomingMessage): Route | undefined =>
    routes.get(headers['proxy-authorization'] ?? '');
  // How long an upload may take is for the server to say that it is sent to.
  const server = createServer({ requestTimeout: 0 }, (request, response) => {
    const [route, to] = [routeOf(request), destinationOf(request)];
    if (route === undefined) response.writeHead(407, { 'proxy-authenticate': 'Basic realm="git"' }).end();
    else if (to === null) response.writeHead(400).end();
    else void relay(route, to, request, response);
  });
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    const [route, to] = [routeOf(request), destinationOf(request)];
    client.on('error', () => undefined);
    if (route !== undefined && to !== null) void tunnel(route, to, client, head);
    else client.end(`HTTP/1.1 ${route === undefined ? 407 : 400} Refused\r\nContent-Length: 0\r\n\r\n`);
  });
  return server;
}

/**
 * A forward proxy on loopback, through which git makes all its connections: it connects to the very address that it has checked,
 * whatever a name leads to a moment later, and also where a server redirects to.
 */
export type ForwardProxy = ReturnType<typeof createForwardProxy>;

/** Makes a forward proxy, which listens from the first passage on. */
export function createForwardProxy(options: ForwardProxyOptions) {
  const routes = new Map<string, Route>();
  const server = startServer(routes);
  let listening: Promise<number> | null = null;
  let isClosed = false;

  async function listen(): Promise<number> {
    const listened = once(server, 'listening');
    server.listen(0, '127.0.0.1');
    await listened;
    const address = server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  return {
    /**
     * Opens a way out for one git program and those that it starts.
     * @throws MirrorError `service.failed` when the proxy is closed or cannot listen
     */
    async open() {
      const port = await (listening ??= listen()).catch((cause: unknown) => {
        listening = null;
        throw new MirrorError('service.failed', 'the way out of the service cannot be opened', { cause });
      });
      if (isClosed) throw new MirrorError('service.failed', 'the service is closing');
      const password = randomBytes(24).toString('hex');
      const key = `Basic ${Buffer.from(`${USER}:${password}`).toString('base64')}`;
      const route = createRoute(options);
      routes.set(key, route);
      return {
        /** The address of the proxy, with the credentials that hold for this passage alone. */
        url: `http://${USER}:${password}@127.0.0.1:${port}`,
        /** Why the connection that was tried last was not made, for the operator alone; null where it was, or none was tried. */
        trouble: route.trouble,
        /** Ends all its connections; it leads nowhere any more. */
        close(): void {
          routes.delete(key);
          route.close();
        },
      };
    },
    /** Ends everything. */
    close: async (): Promise<void> => {
      isClosed = true;
      const opened = await listening?.catch(() => null);
      for (const route of routes.values()) route.close();
      routes.clear();
      if (opened === undefined || opened === null) return;
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
