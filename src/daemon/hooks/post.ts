import { unescape } from 'node:querystring';

import { retryAfterMs } from '../../lib/time/back-off.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { transportError } from '../../mirror/upstream/failures.ts';
import { createWays, type NamedProxy } from '../../lib/net/ways.ts';

/** A request to an address that may itself be a credential. */
export interface PostRequest {
  readonly method: 'GET' | 'POST';
  /** An http or https address. Errors show only its origin. */
  readonly address: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Sends requests to the addresses of webhooks and the heartbeat. */
export type Poster = ReturnType<typeof createPoster>;

/** How long an address may take to answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 30_000;

/** Bytes of an answer to read, so that its connection can be reused; longer answers are cut off. */
const ANSWER_BYTES_READ = 64 * 1024;

/**
 * Opens a client. Proxies come from HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
 * @param timeoutMs longest time from the start of a request to the end of its answer, in milliseconds
 */
export function createPoster(timeoutMs = ANSWER_TIMEOUT_MS) {
  const ways = createWays({ allowH2: false, connections: 2, connectTimeoutMs: timeoutMs });
  return {
    /**
     * Sends one request, once. Redirects are not followed: they could carry the data to another place.
     * @returns the status; the requested pause (Retry-After, RFC 9110, section 10.2.3), in milliseconds; and the beginning of the body,
     *   which may repeat what was sent
     * @throws MirrorError `notification.failed` when there is no answer
     */
    send: async ({ method, address, headers, body }: PostRequest, signal: AbortSignal) => {
      const url = new URL(address);
      const credentials = takeCredentials(url);
      const limit = AbortSignal.timeout(timeoutMs);
      let proxy: NamedProxy | null = null;
      try {
        const way = ways.to(url);
        proxy = way.proxy;
        const response = await way.dispatcher.request({
          origin: url.origin,
          path: url.pathname + url.search,
          method,
          headers: { 'user-agent': 'workbook-mirror', ...credentials, ...headers },
          ...(body === undefined ? {} : { body }),
          signal: AbortSignal.any([signal, limit]),
        });
        response.body.on('error', () => {});
        const text = await beginningOf(response.body);
        const wish = response.headers['retry-after'];
        const waitText = Array.isArray(wish) ? wish[0] : wish;
        return { status: response.statusCode, retryAfterMs: retryAfterMs(waitText, Date.now()), text };
      } catch (error) {
        throw unanswered(error, url.origin, limit.aborted ? timeoutMs : null, proxy);
      }
    },
    close: ways.close,
  };
}

/** Reads an answer, to its end where it is short; keeps what came of one that breaks off. */
async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const piece of body) {
      pieces.push(piece);
      sizeBytes += piece.length;
      if (sizeBytes > ANSWER_BYTES_READ) break;
    }
  } catch {
    // Its status says whether it took what was sent.
  }
  return Buffer.concat(pieces).toString();
}

/** The header with user name and password of an address (RFC 7617). @returns no header if it has none */
function takeCredentials(url: URL): Readonly<Record<string, string>> {
  const { username, password } = url;
  url.username = '';
  url.password = '';
  if (username === '' && password === '') return {};
  const text = `${unescape(username)}:${unescape(password)}`;
  return { authorization: `Basic ${Buffer.from(text).toString('base64')}` };
}

/** The error for a request without an answer; it shows only the origin of the address. */
function unanswered(
  error: unknown,
  origin: string,
  timeoutMs: number | null,
  proxy: NamedProxy | null,
): MirrorError {
  const known = transportError(error, new URL(origin), proxy);
  const message =
    timeoutMs === null
      ? (known instanceof Error ? known.message : String(known)).replace(`${origin}/`, origin)
      : `${origin} did not answer within ${Math.round(timeoutMs / 1000)} seconds.`;
  const hint =
    'Check the address, the network, the proxy settings, and the certificate: an authority of your own is named in the variable NODE_EXTRA_CA_CERTS.';
  return new MirrorError('notification.failed', message, { hint });
}
