import { inspect } from 'node:util';

import { type ErrorAction, type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import type { NamedProxy } from '../../lib/net/ways.ts';

const TIMEOUTS = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);

const ABORTS = new Set(['UND_ERR_ABORTED', 'ABORT_ERR']);

/** Help for the commonest reasons why a service cannot be reached. */
const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Check host and port in the setting service.baseUrl, and that the service runs.',
  ENOTFOUND: 'Check the host name in the setting service.baseUrl.',
  EAI_AGAIN: 'Name resolution fails at the moment: check the DNS settings of this machine.',
};

/** Codes of a plain HTTP connection that ends without an answer, often because TLS is spoken there. */
const MAYBE_TLS: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET']);

/** The innermost error that has a code; a failed connection to several addresses wraps one error an address. */
function innermost(error: unknown): { readonly error: Error; readonly code: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const inner =
    innermost(error.cause) ?? (error instanceof AggregateError ? innermost(error.errors[0]) : undefined);
  if (inner !== undefined) return inner;
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string') return { error, code };
  // The HTTP library gives an answer that is no HTTP (RFC 9112) a name, and only sometimes a code.
  return error.name === 'HTTPParserError' ? { error, code: 'HPE_INVALID' } : undefined;
}

/** The innermost code of an error. */
export function codeOf(error: unknown): string | undefined {
  return innermost(error)?.code;
}

/** Failures of connections to the wrong place, or of the wrong kind: the next second changes nothing about them. */
const LASTING: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EPROTO', 'HPE_INVALID']);

/** Whether an error says that a host, a port, a certificate or a protocol is wrong, and not that a service is slow or busy. */
export function isLasting(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  return LASTING.has(code) || isCertificateCode(code) || code.startsWith('ERR_SSL_');
}

/**
 * Turns an error of the HTTP library into one of ours.
 * @param url holds no secrets
 * @param proxy that the request went through
 */
export function transportError(error: unknown, url: URL, proxy: NamedProxy | null = null): unknown {
  if (error instanceof MirrorError) return error;
  const found = innermost(error);
  if (found === undefined || !(error instanceof Error)) return error;
  const { code } = found;
  const where = `${url.origin}${url.pathname}`;
  const via = proxy === null ? '' : ` through the proxy ${proxy.origin} (${proxy.variable})`;
  // What a proxy refuses has the code of an abandoned request.
  const explained = explainProxy(error, code, url, proxy) ?? explainTls(found.error, code, url);
  if (explained !== null) {
    return new MirrorError('service.unreachable', explained.message, { cause: error, hint: explained.hint });
  }
  if (ABORTS.has(code)) {
    return new MirrorError('pass.abandoned', `The request to ${where} was abandoned.`, { cause: error });
  }
  if (TIMEOUTS.has(code)) {
    return new MirrorError('service.timeout', `${where} did not answer in time${via} (${code}).`, {
      cause: error,
      hint: 'If the service is always slow, raise service.timeout.',
    });
  }
  return new MirrorError(
    'service.unreachable',
    `${where} cannot be reached${via}: ${error.message} (${code}).`,
    {
      cause: error,
      hint: HINTS[code] ?? unansweredHint(code, url),
    },
  );
}

function unansweredHint(code: string, { protocol, host }: URL): string {
  const hint = 'Check the setting service.baseUrl and the network.';
  return protocol === 'http:' && MAYBE_TLS.has(code)
    ? `${hint} Where TLS is spoken there, give https://${host}.`
    : hint;
}

/** The error for an answer that broke off after it had begun, or whose content coding is damaged. */
export function brokenOff(error: unknown, url: URL): unknown {
  const code = codeOf(error);
  const isKnown = error instanceof MirrorError || code === undefined || !(error instanceof Error);
  if (isKnown || TIMEOUTS.has(code) || ABORTS.has(code)) return transportError(error, url);
  return new MirrorError(
    'service.unreachable',
    `The answer of ${url.origin}${url.pathname} broke off: ${error.message} (${code}).`,
    { cause: error, hint: 'Nothing was replaced. If it stays, look for a proxy that cuts answers.' },
  );
}

/** A failure in plain words, and what helps. */
interface Explained {
  readonly message: string;
  readonly hint: string;
}

type Problem = readonly [problem: string, hint: string];

const UNKNOWN_AUTHORITY: Problem = [
  'is not from an authority that this program trusts',
  'Name a file with the certificate of the authority (PEM) in the variable NODE_EXTRA_CA_CERTS, or let those count that this machine trusts: NODE_USE_SYSTEM_CA=1.',
];

/** Problems of certificates, and what helps, by the code of the error (OpenSSL, X509_STORE_CTX_get_error(3)). */
const CERTIFICATES: ReadonlyMap<string, Problem> = new Map<string, Problem>([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_AUTHORITY],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_AUTHORITY],
  ['CERT_UNTRUSTED', UNKNOWN_AUTHORITY],
  ['CERT_HAS_EXPIRED', ['has expired', 'Have it renewed there; if it was, check the clock of this machine.']],
  ['CERT_NOT_YET_VALID', ['is not valid yet', 'Check the clock of this machine.']],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    ['is for other names', 'Give the setting service.baseUrl a name that the certificate has.'],
  ],
]);

/** A certificate may have names without end. */
const NAMES_SHOWN = 200;

/** Whether an error says that a certificate is refused. */
export function isCertificateCode(code: string): boolean {
  return CERTIFICATES.has(code);
}

/**
 * Explains why there is no TLS connection, or why there should be one.
 * @param error the innermost one, which has the code
 * @returns null where it is about something else
 */
function explainTls(error: Error, code: string, { protocol, origin, host }: URL): Explained | null {
  if (protocol === 'http:') {
    const hint = `Try https://${host} in the setting service.baseUrl.`;
    return isTlsAlert(error) ? { message: `${origin} speaks TLS, not plain HTTP.`, hint } : null;
  }
  const [problem, hint] = CERTIFICATES.get(code) ?? [];
  if (problem !== undefined && hint !== undefined) {
    return { message: `The certificate of ${origin} ${problem}${namesOf(error)} (${code}).`, hint };
  }
  if (code !== 'EPROTO' && !code.startsWith('ERR_SSL_')) return null;
  // Its message is that of OpenSSL, with file and line of its source.
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : 'it breaks off';
  if (/wrong.version.number|packet.length.too.long/i.test(`${code} ${reason}`)) {
    return {
      message: `${origin} does not speak TLS, but most likely plain HTTP (${code}).`,
      hint: `Try http://${host} in the setting service.baseUrl; keys then travel unencrypted.`,
    };
  }
  return {
    message: `There is no TLS connection to ${origin}: ${reason} (${code}).`,
    hint: 'Check the setting service.baseUrl, and the versions of TLS that are offered there.',
  };
}

/** Whether an answer that is no HTTP begins as an alert of TLS (RFC 8446, section 5.1). */
function isTlsAlert(error: Error): boolean {
  return 'data' in error && typeof error.data === 'string' && error.data.startsWith('\u0015\u0003');
}

function namesOf(error: Error): string {
  if (!('cert' in error) || typeof error.cert !== 'object' || error.cert === null) return '';
  const { subjectaltname } = error.cert as { subjectaltname?: unknown };
  return typeof subjectaltname === 'string' ? `: ${subjectaltname.slice(0, NAMES_SHOWN)}` : '';
}

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
function proxyRefusal(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  const [, ofTunnel, ofRequest] = REFUSAL.exec(error.message) ?? [];
  const status = ofTunnel ?? ofRequest;
  return status === undefined ? proxyRefusal(error.cause) : Number(status);
}

/** Explains a failure that is the proxy's; null where it is not. */
function explainProxy(
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
          : `Have ${origin} allowed there, or name its host in NO_PROXY to ask it directly.`,
    };
  }
  const reason = NO_CONNECTION.get(code);
  return reason === undefined
    ? null
    : {
        message: `${who} does not answer: ${reason} (${code}).`,
        hint: `Check the proxy and the variable ${proxy.variable}, or name the host of the service in NO_PROXY to ask it directly.`,
      };
}

/** The error for contents that this person may not have, where the key is let in elsewhere. */
export function contentsForbidden(url: URL): MirrorError {
  return new MirrorError('contents.forbidden', `${url.pathname} is forbidden to this API key (status 403).`, {
    hint: ACCESS_HINT,
  });
}

/** Contents that no key is let in to, although one was let in to the lists. */
export class ContentsRefusedError extends MirrorError {
  /** The next lists tell whether the keys are refused everywhere, so the target need not wait for a person. */
  override get action(): ErrorAction {
    return 'retry';
  }
}

/** The error for such contents. */
export function contentsRefused(url: URL): ContentsRefusedError {
  return new ContentsRefusedError(
    'contents.forbidden',
    `${url.pathname} refuses this API key, which the lists let in (status 401).`,
    { hint: ACCESS_HINT },
  );
}

const ACCESS_HINT =
  'Give the person whose key it is access to the repository, or exclude it: the setting repositories.exclude.';

/** The error for a status that is neither success nor one that the caller understands. */
export function statusError(status: number, url: URL, retryAfterMs: number | undefined): MirrorError {
  const where = `${url.origin}${url.pathname}`;
  const options = retryAfterMs === undefined ? {} : { retryAfterMs };
  if (status === 429) {
    return new MirrorError('service.busy', `${where} asks for fewer requests (status 429).`, options);
  }
  if (status >= 500 || status === 408 || status === 425) {
    return new MirrorError('service.failed', `${where} failed (status ${status}).`, options);
  }
  return new MirrorError('service.wrong_kind', `${where} answered with the unexpected status ${status}.`, {
    hint: addressHint(url),
  });
}

/** The hint for an address that answers, but not as this API does. */
export function addressHint(url: URL): string {
  return /\/api(?:\/|$)/.test(url.pathname)
    ? 'Check the setting service.baseUrl: it is the address of the application followed by /api.'
    : `Check the setting service.baseUrl: it is the address of the application followed by /api, and this one has no /api.`;
}

/** Failures before a connection is there: nothing can have been sent. */
const BEFORE_SENDING = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Errors that say that a request was not done: the service did not want it, or it was led elsewhere. */
const NOT_DONE: ReadonlySet<ErrorCode> = new Set([
  'credentials.refused',
  'service.busy',
  'service.not_found',
  'service.redirected',
  'usage.invalid',
]);

/** Whether a request that failed may have been done all the same: otherwise it may be sent again, even if it is a POST. */
export function mayBeDone(error: unknown): boolean {
  if (error instanceof MirrorError && NOT_DONE.has(error.code)) return false;
  return proxyRefusal(error) === null && !BEFORE_SENDING.has(codeOf(error) ?? '');
}

/** An error that names no key: an address that the service redirects to may hold one. The cause goes with it. */
export function withoutKeys(error: unknown, keys: readonly string[]): unknown {
  if (!(error instanceof MirrorError)) return error;
  // Host names of addresses lose their capitals.
  const secrets = keys.flatMap((key) => [key, key.toLowerCase()]);
  const { code, message, hint, retryAfterMs } = error;
  const clean = { message: scrub(message, secrets), hint: hint === undefined ? hint : scrub(hint, secrets) };
  if (clean.message === message && clean.hint === hint && !namesAny(error.cause, secrets)) return error;
  const Kind = error instanceof ContentsRefusedError ? ContentsRefusedError : MirrorError;
  return new Kind(code, clean.message, {
    ...(clean.hint === undefined ? {} : { hint: clean.hint }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function namesAny(cause: unknown, secrets: readonly string[]): boolean {
  const text = inspect(cause, { depth: 8 });
  return scrub(text, secrets) !== text;
}
