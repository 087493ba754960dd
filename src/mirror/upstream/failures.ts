import { inspect } from 'node:util';

import { CREDENTIAL_PLACES, type Generation } from '../../lib/api/requests.ts';
import { type ErrorAction, type ErrorCode, MirrorError } from '../../lib/errors/errors.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { explainProxy, explainTls, isCertificateCode, proxyRefusal } from './connection-failures.ts';
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

/** An error that has a code. */
interface Coded {
  readonly error: Error;
  readonly code: string;
}

/** The innermost error that has a code; a failed connection to several addresses wraps one error an address. */
function innermost(error: unknown): Coded | undefined {
  if (!(error instanceof Error)) return undefined;
  const inner =
    innermost(error.cause) ?? (error instanceof AggregateError ? innermost(error.errors[0]) : undefined);
  if (inner !== undefined) return inner;
  const { code } = error as NodeJS.ErrnoException;
  const known = typeof code === 'string' ? code : codeByName(error);
  return known === undefined ? undefined : { error, code: known };
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

/** The HTTP library gives an answer that is no HTTP (RFC 9112) a name, and only sometimes a code. */
function codeByName(error: Error): string | undefined {
  return error.name === 'HTTPParserError' ? 'HPE_INVALID' : undefined;
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
      hint: 'If the service is always slow, raise service.headersTimeout or service.stallTimeout.',
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

/** The two generations of the service's API, each with its own credential. */
export type CredentialKind = 'apiKey' | 'apiToken';

const CREDENTIALS = {
  current: { kind: 'apiKey', name: 'personal API key of the current API' },
  v1: { kind: 'apiToken', name: 'personal API token of v1' },
} as const satisfies Record<Generation, { readonly kind: CredentialKind; readonly name: string }>;

/** The two generations' keys beside each other: one is set alone, both are set, or both are set to the same value. */
export type KeyPair = 'single' | 'different' | 'equal';

const PAIR_HINTS: Readonly<Record<KeyPair, string>> = {
  single: '',
  different:
    ' Perhaps service.apiKey and service.apiToken are swapped: then give each the value of the other.',
  equal:
    ' service.apiKey and service.apiToken have the same value, but the key and the token are two secrets: one of the two is in the wrong place.',
};

/**
 * The error for keys that the service refuses (service specification, section 5).
 * @param count how many keys were tried
 */
export function credentialRefused(
  generation: Generation,
  status: number,
  { origin, pathname }: URL,
  pair: KeyPair,
  count = 1,
): MirrorError {
  const { name } = CREDENTIALS[generation];
  const what = `${origin}${pathname} refuses the ${name} (status ${status})`;
  return credentialError(what, generation, pair, count);
}

/**
 * The error while keys that were refused wait: nothing was sent.
 * @param untilMs when they are tried again, in milliseconds since the epoch
 */
export function credentialStalled(
  generation: Generation,
  untilMs: number,
  pair: KeyPair,
  count: number,
): MirrorError {
  const { name } = CREDENTIALS[generation];
  const what = `The service refused the ${name}, which is tried again at ${utcTime(untilMs)}`;
  const next = ' `run` uses a changed file at once; SIGHUP and `sync` try the same key again.';
  return credentialError(what, generation, pair, count, next);
}

/** @param next a sentence about what happens next, with a space before it; left out where nothing waits yet */
function credentialError(
  what: string,
  generation: Generation,
  pair: KeyPair,
  count: number,
  next = '',
): MirrorError {
  const setting = `service.${CREDENTIALS[generation].kind}`;
  const which = count > 1 ? `all ${count} keys of the setting` : 'setting';
  const renewal =
    `Make a new one in the service under ${CREDENTIAL_PLACES[generation]} and put it where ${setting} comes from:` +
    ' the setting, its file, variable or credential. A group key will not do.';
  return new MirrorError('credentials.refused', `${what}: ${which} ${setting}.`, {
    hint: renewal + PAIR_HINTS[pair] + next,
  });
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
