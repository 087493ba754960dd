import { inspect } from 'node:util';

import { WORKBOOKS_PATH } from '../../lib/api/requests.ts';
import { type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import type { NamedProxy } from '../../lib/net/ways.ts';

const TIMEOUTS: ReadonlySet<string> = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);

const ABORTS: ReadonlySet<string> = new Set(['UND_ERR_ABORTED', 'ABORT_ERR']);

/** Failures before the connection is made: nothing can have been sent. */
const BEFORE_SENDING: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Failures of connections to the wrong place, or of the wrong kind, which do not pass within moments. */
const LASTING: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EPROTO', 'HPE_INVALID']);

/** Failures of plain HTTP that suggest TLS: the other side hangs up, or answers with an alert. */
const MAYBE_TLS: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'HPE_INVALID']);

const UNKNOWN_AUTHORITY =
  'Name a file with the certificate of the authority (PEM) in the variable NODE_EXTRA_CA_CERTS, or add it to those that this machine trusts (update-ca-certificates).';

/** The remedies for refused certificates, by the code of the error (OpenSSL, X509_STORE_CTX_get_error(3)). */
const CERTIFICATES: ReadonlyMap<string, string> = new Map([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', UNKNOWN_AUTHORITY],
  ['SELF_SIGNED_CERT_IN_CHAIN', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT', UNKNOWN_AUTHORITY],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', UNKNOWN_AUTHORITY],
  ['CERT_UNTRUSTED', UNKNOWN_AUTHORITY],
  ['CERT_HAS_EXPIRED', 'Have it renewed there; if it was, check the clock of this machine.'],
  ['CERT_NOT_YET_VALID', 'Check the clock of this machine.'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'Give the setting service.baseUrl a name that the certificate has.'],
]);

/** The innermost error with a code; a failed connection to several addresses wraps one error per address. */
function innermost(error: unknown): { readonly error: Error; readonly code: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const inner =
    innermost(error.cause) ?? (error instanceof AggregateError ? innermost(error.errors[0]) : undefined);
  if (inner !== undefined) return inner;
  const { code } = error as NodeJS.ErrnoException;
  if (typeof code === 'string') return { error, code };
  // The HTTP library marks an answer that is not HTTP (RFC 9112) by this name, and only sometimes by a code.
  return error.name === 'HTTPParserError' ? { error, code: 'HPE_INVALID' } : undefined;
}

/** The innermost code of an error. */
function codeOf(error: unknown): string | undefined {
  return innermost(error)?.code;
}

/** Whether an error means that a certificate is refused. */
export function isOfCertificate(error: unknown): boolean {
  return CERTIFICATES.has(codeOf(error) ?? '');
}

/** Whether an error means that a host, a port, a certificate or a protocol is wrong, and not that a service is slow or busy. */
export function isLasting(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  return LASTING.has(code) || CERTIFICATES.has(code) || code.startsWith('ERR_SSL_');
}

/**
 * Turns an error of the HTTP library into one of ours.
 * @param url holds no secrets
 * @param proxy the proxy of the request
 */
export function transportError(error: unknown, url: URL, proxy: NamedProxy | null = null): unknown {
  if (error instanceof MirrorError) return error;
  const found = innermost(error);
  if (found === undefined || !(error instanceof Error)) return error;
  const { code } = found;
  const where = `${url.origin}${url.pathname}`;
  // A refusal by a proxy has the code of an abandoned request.
  const explained = explainProxy(error, found, url, proxy) ?? explainTls(found, url);
  const via = proxy === null ? '' : ` through the proxy ${proxy.origin} (${proxy.variable})`;
  if (explained === null && ABORTS.has(code))
    return new MirrorError('pass.abandoned', `The request to ${where} was abandoned.`, { cause: error });
  if (explained === null && TIMEOUTS.has(code)) {
    const message = `${where} did not answer in time${via} (${code}).`;
    const hint = 'If the service is always slow, raise service.timeout.';
    return new MirrorError('service.timeout', message, { cause: error, hint });
  }
  const isTls = url.protocol === 'http:' && MAYBE_TLS.has(code);
  const tls = isTls ? ` Where TLS is spoken there, give https://${url.host}.` : '';
  const [message, hint] = explained ?? [
    `The request to ${where}${via} failed: ${error.message} (${code}).`,
    `Check host and port in the setting service.baseUrl, that the service runs, and the network with its proxies.${tls}`,
  ];
  return new MirrorError('service.unreachable', message, { cause: error, hint });
}

type Explained = readonly [message: string, hint: string];

/** Explains why a TLS connection failed. @returns null for any other failure */
function explainTls(
  { error, code }: { readonly error: Error; readonly code: string },
  { protocol, origin, host }: URL,
): Explained | null {
  const remedy = CERTIFICATES.get(code);
  if (remedy !== undefined)
    return [`The certificate of ${origin} is refused: ${error.message} (${code}).`, remedy];
  if (protocol === 'http:' || (code !== 'EPROTO' && !code.startsWith('ERR_SSL_'))) return null;
  // It has OpenSSL's message, with file and line of its source.
  const reason = 'reason' in error && typeof error.reason === 'string' ? error.reason : 'it breaks off';
  return /wrong.version.number|packet.length.too.long/i.test(`${code} ${reason}`)
    ? [
        `${origin} does not speak TLS, but most likely plain HTTP (${code}).`,
        `Try http://${host} in the setting service.baseUrl; keys then travel unencrypted.`,
      ]
    : [
        `There is no TLS connection to ${origin}: ${reason} (${code}).`,
        'Check the setting service.baseUrl, and the versions of TLS that are offered there.',
      ];
}

/** The message for a proxy's refusal (undici, lib/dispatcher/proxy-agent.js): to CONNECT by any status, to others by 407. */
const REFUSAL = /^Proxy response \((\d+)\)|^Proxy Authentication Required \((407)\)/;

/** The status by which a proxy refused to pass a request on; null for any other failure. */
function proxyRefusal(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  const [, ofTunnel, ofRequest] = REFUSAL.exec(error.message) ?? [];
  const status = ofTunnel ?? ofRequest;
  return status === undefined ? proxyRefusal(error.cause) : Number(status);
}

/** Explains a failure of the proxy; null for any other failure. */
function explainProxy(
  error: Error,
  found: { readonly error: Error; readonly code: string },
  { origin }: URL,
  proxy: NamedProxy | null,
): Explained | null {
  if (proxy === null) return null;
  const { variable } = proxy;
  const name = `The proxy ${proxy.origin} (${variable})`;
  const status = proxyRefusal(error);
  if (status !== null)
    return [
      `${name} does not lead to ${origin} (status ${status}).`,
      status === 407
        ? `It asks for a user name and a password: put user:password@ before its host in ${variable}, special characters percent-encoded.`
        : `Have ${origin} allowed there, or name its host in NO_PROXY to ask it directly.`,
    ];
  if (!BEFORE_SENDING.has(found.code)) return null;
  return [
    `${name} does not answer: ${found.error.message} (${found.code}).`,
    `Check the proxy and the variable ${variable}, or name the host of the service in NO_PROXY to ask it directly.`,
  ];
}

/** The error for contents that are forbidden to a key that is accepted elsewhere. */
export function contentsForbidden(url: URL): MirrorError {
  return new MirrorError('contents.forbidden', `${url.pathname} is forbidden to this API key (status 403).`, {
    hint: ACCESS_HINT,
  });
}

/**
 * The error for contents for which every key is refused, although one was accepted for the lists. The next lists show whether the keys
 * are refused everywhere, so the target need not wait for an operator.
 */
export function contentsRefused(url: URL): MirrorError {
  const message = `${url.pathname} refuses this API key, which the lists let in (status 401).`;
  return new MirrorError('contents.forbidden', message, { hint: ACCESS_HINT, action: 'retry' });
}

const ACCESS_HINT =
  'Give the person whose key it is access to the repository, or exclude it: the setting repositories.exclude.';

/** Temporary statuses: another try may succeed. */
export function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

/** The error for a status that is neither success nor one that the caller understands. */
export function statusError(status: number, url: URL, retryAfterMs: number | undefined): MirrorError {
  const where = `${url.origin}${url.pathname}`;
  if (status === 429)
    return new MirrorError('service.busy', `${where} asks for fewer requests (status 429).`, {
      retryAfterMs,
    });
  if (isPassing(status))
    return new MirrorError('service.failed', `${where} failed (status ${status}).`, { retryAfterMs });
  return new MirrorError('service.wrong_kind', `${where} answered with the unexpected status ${status}.`, {
    hint: addressHint(url),
  });
}

/** The hint for an address that answers, but not as this API does. */
export function addressHint(url: URL): string {
  const missing = /\/api(?:\/|$)/.test(url.pathname) ? '' : ', and this one has no /api';
  return `Check the setting service.baseUrl: it is the address of the application followed by /api${missing}.`;
}

/** The error for an answer of another kind than the API gives there. */
export function wrongKind(
  { url, status }: { readonly url: URL; readonly status: number },
  kind: string,
  cause?: unknown,
): MirrorError {
  const login =
    kind === 'an HTML page'
      ? ' An HTML page may also be a login page of the service or of a proxy before it.'
      : '';
  const v1 = url.pathname.includes(WORKBOOKS_PATH)
    ? ' If this installation has no v1, leave service.apiToken out.'
    : '';
  return new MirrorError(
    'service.wrong_kind',
    `${url.origin}${url.pathname} answered with ${kind} where the API gives JSON (status ${status}).`,
    { cause, hint: `${addressHint(url)}${login}${v1}` },
  );
}

/** Names what an answer seems to be, for a person. */
export function kindOf(start: string, contentType: string | undefined): string {
  const text = start.trimStart();
  if (text === '') return 'nothing';
  if (/^<(?:!doctype html|html|head|body)/i.test(text) || contentType?.includes('text/html') === true) {
    return 'an HTML page';
  }
  if (text.startsWith('<')) return 'XML';
  if (text.startsWith('{') || text.startsWith('[')) return 'JSON';
  if (text.startsWith('PK')) return 'a zip archive';
  return 'something else';
}

/** Errors that mean that a request was not carried out: the service refused it, or redirected it. */
const NOT_DONE: ReadonlySet<ErrorCode> = new Set([
  'credentials.refused',
  'service.busy',
  'service.not_found',
  'service.redirected',
  'usage.invalid',
]);

/** Whether a failed request may have been carried out all the same: otherwise it may be sent again, even if it is a POST. */
export function mayBeDone(error: unknown): boolean {
  if (error instanceof MirrorError && NOT_DONE.has(error.code)) return false;
  return proxyRefusal(error) === null && !BEFORE_SENDING.has(codeOf(error) ?? '');
}

/** Removes keys from an error: an address that the service redirects to may hold one. The cause is dropped with it. */
export function withoutKeys(error: unknown, keys: readonly string[]): unknown {
  if (!(error instanceof MirrorError)) return error;
  // Host names in addresses are in lower case.
  const secrets = keys.flatMap((key) => [key, key.toLowerCase()]);
  const { code, message, hint, retryAfterMs, action } = error;
  const clean = { message: scrub(message, secrets), hint: hint === undefined ? hint : scrub(hint, secrets) };
  if (clean.message === message && clean.hint === hint && !namesAny(error.cause, secrets)) return error;
  return new MirrorError(code, clean.message, { hint: clean.hint, retryAfterMs, action });
}

function namesAny(cause: unknown, secrets: readonly string[]): boolean {
  const text = inspect(cause, { depth: 8 });
  return scrub(text, secrets) !== text;
}
