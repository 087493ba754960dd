import type { Explained } from './tls-failures.ts';
import type { NamedProxy } from './proxies.ts';

/** Failures of a connection that was to lead to the proxy, where there is one. */
const NO_CONNECTION: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'nothing listens there'],
  ['ENOTFOUND', 'its name has no address'],
  ['EAI_AGAIN', 'its name cannot be resolved now'],
  ['EHOSTUNREACH', 'there is no way to it'],
  ['ENETUNREACH', 'there is no way to it'],
  ['ETIMEDOUT', 'nothing answers there'],
  ['UND_ERR_CONNECT_TIMEOUT', 'no connection in time'],
]);

/** How a proxy refuses (undici, lib/dispatcher/proxy-agent.js): to CONNECT by any status, to others by 407. */
const REFUSAL = /^Proxy response \((\d+)\)|^Proxy Authentication Required \((407)\)/;

/** The status with which a proxy refused to pass a request on; null where it is another failure. */
export function proxyRefusal(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  const [, ofTunnel, ofRequest] = REFUSAL.exec(error.message) ?? [];
  const status = ofTunnel ?? ofRequest;
  return status === undefined ? proxyRefusal(error.cause) : Number(status);
}

/** Explains a failure that is the proxy's; null where it is not. */
export function explainProxy(
  error: Error,
  code: string,
  { origin }: URL,
  proxy: NamedProxy | null,
): Explained | null {
  if (proxy === null) return null;
  const who = `The proxy ${proxy.origin} (${proxy.variable})`;
  const status = proxyRefusal(error);
  if (status !== null) {
    return {
      message: `${who} does not lead to ${origin} (status ${status}).`,
      hint:
        status === 407
          ? `It asks for a user name and a password: put user:password@ before its host in ${proxy.variable}, special characters percent-encoded.`
          : `Have ${origin} allowed there, or name its host in NO_PROXY to ask it directly. It is tried again by itself.`,
    };
  }
  const reason = NO_CONNECTION.get(code);
  return reason === undefined
    ? null
    : {
        message: `${who} does not answer: ${reason} (${code}).`,
        hint: `Check the proxy and the variable ${proxy.variable}, or name the host of the service in NO_PROXY to ask it directly. It is tried again by itself.`,
      };
}
