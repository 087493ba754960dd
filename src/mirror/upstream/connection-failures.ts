import type { NamedProxy } from '../../lib/net/ways.ts';

/** A failure in plain words, and what helps. */
export interface Explained {
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
export function explainTls(error: Error, code: string, { protocol, origin, host }: URL): Explained | null {
  if (protocol === 'http:') return isTlsAlert(error) ? speaksTls(origin, host) : null;
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

function speaksTls(origin: string, host: string): Explained {
  return {
    message: `${origin} speaks TLS, not plain HTTP.`,
    hint: `Try https://${host} in the setting service.baseUrl.`,
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
