import type { AnswerHead } from './asker.ts';
import { table } from './table.ts';

/** All that came, whatever was asked. */
interface Traffic {
  /** One for each request. */
  readonly all: readonly AnswerHead[];
  /** Those that are answers. */
  readonly heads: readonly AnswerHead[];
  readonly connections: number;
  /** Null where it cannot be seen. */
  readonly offersHttp2: boolean | null;
}

/** Headers that announce limits (draft-ietf-httpapi-ratelimit-headers, and the usual ones before it). */
const LIMIT_HEADERS =
  /^(?:ratelimit|x-rate-?limit)(?:-(?:limit|remaining|reset|policy|used|resource|retry-after))?$/;

const CODINGS: ReadonlySet<string> = new Set(['gzip', 'br', 'deflate', 'zstd', 'identity']);

/** Products whose names say nothing of an installation. */
const PRODUCTS: ReadonlySet<string> = new Set(
  `apache asp.net awselb caddy cloudflare cowboy daphne envoy express gunicorn haproxy hypercorn istio-envoy jetty kestrel litespeed
  microsoft-httpapi microsoft-iis next.js nginx openresty php puma tomcat tornado traefik undertow uvicorn varnish waitress
  werkzeug`.split(/\s+/),
);

const SECOND_MS = 1000;
const WORTH_SAYING_MS = 600_000;

/** Questions that all answers together tell about. */
export const TRANSPORT = table<Traffic>('Transport', {
  'transport.answers': {
    question: 'how many requests had an answer?',
    read: ({ all, heads }) => `${heads.length} of ${all.length}`,
    meaning: 'the mirror tries what fails again, four times',
  },
  'transport.time': {
    question: 'time to the first byte, median and longest',
    read: ({ heads }) => {
      const waits = heads.map(({ waitMs }) => waitMs);
      return `${Math.round(median(waits))} ms, ${Math.round(Math.max(0, ...waits))} ms`;
    },
    meaning: 'the mirror waits as long as service.timeout says',
  },
  'transport.connections': {
    question: 'are connections kept open?',
    read: ({ heads, connections }) => {
      const isKept = heads.length > 0 && connections < heads.length / 2;
      return `${isKept ? 'yes' : 'no'}: ${connections} for ${heads.length} answers`;
    },
    meaning: 'some were broken off by the probe; the mirror keeps a few',
  },
  'transport.http2': {
    question: 'is HTTP/2 offered?',
    read: ({ offersHttp2 }) => (offersHttp2 === null ? 'cannot be seen' : offersHttp2 ? 'yes' : 'no'),
    meaning: 'the mirror uses HTTP/1.1',
  },
  'transport.limits': {
    question: 'are rate limits announced?',
    read: ({ heads }) => {
      const names = heads.flatMap(({ headers }) => Object.keys(headers));
      return yesWith(names.filter((name) => LIMIT_HEADERS.test(name)));
    },
    meaning: 'the mirror goes by status 429 and Retry-After',
  },
  'transport.retry_after': {
    question: 'was a pause asked for (Retry-After)?',
    read: ({ heads }) => howOften(heads.filter(({ headers }) => headers['retry-after'] !== undefined)),
    meaning: 'the mirror keeps to it',
  },
  'transport.redirects': {
    question: 'was there a redirect?',
    read: ({ heads }) =>
      howOften(heads.filter(({ status }) => status >= 300 && status < 400 && status !== 304)),
    meaning: (_, answer) =>
      answer === 'no'
        ? 'the base address is the final one'
        : 'the mirror follows none to another origin: check service.baseUrl',
  },
  'transport.coding': {
    question: 'are answers compressed without being asked?',
    read: ({ heads }) => {
      // One request allows it, to see whether it is used.
      const unasked = heads.filter(({ isCodingAllowed }) => !isCodingAllowed);
      const codings = unasked.flatMap(({ headers }) => headers['content-encoding'] ?? []);
      return yesWith(codings.map((coding) => (CODINGS.has(coding) ? coding : 'another')));
    },
    meaning: 'the mirror undoes gzip, deflate, br and zstd',
  },
  'transport.clock': {
    question: "how far is the service's clock from this machine's?",
    read: ({ heads }) => {
      const skewMs = clockSkewMs(heads);
      if (skewMs === null) return 'no Date header';
      return Math.abs(skewMs) < 2 * SECOND_MS ? 'less than 2 s' : `${Math.round(skewMs / SECOND_MS)} s`;
    },
    meaning: ({ heads }) =>
      Math.abs(clockSkewMs(heads) ?? 0) > WORTH_SAYING_MS
        ? 'the mirror will warn of it: set the clocks'
        : 'near enough',
  },
  'transport.server': {
    question: 'what do Server and X-Powered-By name?',
    read: ({ heads }) => {
      const values = heads.flatMap(({ headers: { server, 'x-powered-by': by } }) => [server ?? [], by ?? []]);
      return sorted(values.flat().map(products)).join('; ') || 'nothing';
    },
    meaning: 'for whoever reads this report',
  },
});

/** The products that a header names, with their versions; what is not known is only said to be there. */
export function products(header: string): string {
  const words = header
    .slice(0, 500)
    .replaceAll(/\([^)]*\)/g, ' ')
    .split(/[\s,]+/)
    .filter((word) => word !== '');
  const shown = words.map((word) => {
    const [name = '', version = ''] = word.split('/');
    if (!PRODUCTS.has(name.toLowerCase())) return 'another';
    return /^\d{1,4}(?:\.\d{1,6}){0,4}$/.test(version) ? `${name}/${version}` : name;
  });
  return [...new Set(shown)].join(' ');
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** How far the service's clock is ahead; null where no answer says. */
function clockSkewMs(heads: readonly AnswerHead[]): number | null {
  const skews = heads.map(({ headers, atMs }) => Date.parse(headers['date'] ?? '') - atMs);
  const known = skews.filter((skewMs) => !Number.isNaN(skewMs));
  return known.length === 0 ? null : median(known);
}

/** Each once. */
function sorted(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}

function yesWith(values: readonly string[]): string {
  return values.length === 0 ? 'no' : `yes: ${sorted(values).join(', ')}`;
}

function howOften({ length }: readonly AnswerHead[]): string {
  return length === 0 ? 'no' : `yes: ${length} times`;
}
