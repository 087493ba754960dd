import type { Traffic } from './asker.ts';
import type { Finding } from './table.ts';
import { findingsOf } from './finding.ts';

/** Headers that announce limits (draft-ietf-httpapi-ratelimit-headers, and the usual ones before it). */
const LIMIT_HEADERS =
  /^(?:ratelimit|x-rate-?limit)(?:-(?:limit|remaining|reset|policy|used|resource|retry-after))?$/;

/** Products whose names say nothing of an installation. */
const PRODUCTS: ReadonlySet<string> = new Set([
  'nginx',
  'openresty',
  'apache',
  'caddy',
  'envoy',
  'istio-envoy',
  'traefik',
  'haproxy',
  'cloudflare',
  'awselb',
  'varnish',
  'microsoft-iis',
  'microsoft-httpapi',
  'kestrel',
  'gunicorn',
  'uvicorn',
  'hypercorn',
  'daphne',
  'waitress',
  'werkzeug',
  'tornado',
  'jetty',
  'tomcat',
  'undertow',
  'express',
  'puma',
  'cowboy',
  'litespeed',
  'asp.net',
  'php',
  'next.js',
]);

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
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

const SECOND_MS = 1000;
const WORTH_SAYING_MS = 600_000;

/** What all answers together mean. */
export function readTraffic(traffic: Traffic, connections: number, offersHttp2: boolean | null): Finding[] {
  const find = findingsOf('Transport');
  const answers = traffic.answers.filter(({ status }) => status > 0);
  const isKept = answers.length > 0 && connections < answers.length / 2;
  const waits = answers.map(({ waitMs }) => waitMs);
  return [
    find(
      'transport.answers',
      'how many requests had an answer?',
      `${answers.length} of ${traffic.answers.length}`,
      'the mirror tries what fails again: service.retries',
    ),
    find(
      'transport.time',
      'time to the first byte, median and longest',
      `${Math.round(median(waits))} ms, ${Math.round(Math.max(0, ...waits))} ms`,
      'the mirror waits as long as service.headersTimeout says',
    ),
    find(
      'transport.connections',
      'are connections kept open?',
      `${isKept ? 'yes' : 'no'}: ${connections} for ${answers.length} answers`,
      'some were broken off by the probe; the mirror keeps a few',
    ),
    find(
      'transport.http2',
      'is HTTP/2 offered?',
      offersHttp2 === null ? 'cannot be seen' : offersHttp2 ? 'yes' : 'no',
      'the mirror uses HTTP/1.1',
    ),
    ...readHeaders(traffic),
  ];
}

/** What the headers of all answers together mean. */
function readHeaders(traffic: Traffic): Finding[] {
  const find = findingsOf('Transport');
  const answers = traffic.answers.filter(({ status }) => status > 0);
  const skews = answers.flatMap(({ headers, atMs }) => {
    const serviceMs = Date.parse(headers['date'] ?? '');
    return Number.isNaN(serviceMs) ? [] : [serviceMs - atMs];
  });
  const skewMs = median(skews);
  const limits = namesOf(traffic, (name) => LIMIT_HEADERS.test(name));
  const retryAfter = answers.filter(({ headers }) => headers['retry-after'] !== undefined).length;
  const codings = namesOfValues(traffic, 'content-encoding');
  const redirects = answers.filter(({ status }) => status >= 300 && status < 400 && status !== 304).length;
  return [
    find(
      'transport.limits',
      'are rate limits announced?',
      limits === '' ? 'no' : `yes: ${limits}`,
      'the mirror goes by status 429 and Retry-After',
    ),
    find(
      'transport.retry_after',
      'was a pause asked for (Retry-After)?',
      retryAfter === 0 ? 'no' : `yes: ${retryAfter} times`,
      'the mirror keeps to it',
    ),
    find(
      'transport.redirects',
      'was there a redirect?',
      redirects === 0 ? 'no' : `yes: ${redirects} times`,
      redirects === 0
        ? 'the base address is the final one'
        : 'the mirror follows none to another origin: check service.baseUrl',
    ),
    find(
      'transport.coding',
      'are answers compressed without being asked?',
      codings === '' ? 'no' : `yes: ${codings}`,
      'the mirror undoes gzip, deflate, br and zstd',
    ),
    find(
      'transport.clock',
      "how far is the service's clock from this machine's?",
      skews.length === 0
        ? 'no Date header'
        : Math.abs(skewMs) < 2 * SECOND_MS
          ? 'less than 2 s'
          : `${Math.round(skewMs / SECOND_MS)} s`,
      Math.abs(skewMs) > WORTH_SAYING_MS ? 'the mirror will warn of it: set the clocks' : 'near enough',
    ),
    find(
      'transport.server',
      'what do Server and X-Powered-By name?',
      serverNames(traffic),
      'for whoever reads this report',
    ),
  ];
}

function namesOf({ answers }: Traffic, isMeant: (name: string) => boolean): string {
  return [...new Set(answers.flatMap(({ headers }) => Object.keys(headers).filter(isMeant)))]
    .sort()
    .join(', ');
}

function namesOfValues({ answers }: Traffic, name: string): string {
  const known: ReadonlySet<string> = new Set(['gzip', 'br', 'deflate', 'zstd', 'identity']);
  // One request allows it, to see whether it is used.
  const values = answers
    .filter(({ isCodingAllowed }) => !isCodingAllowed)
    .flatMap(({ headers }) => headers[name] ?? []);
  return [...new Set(values.map((value) => (known.has(value) ? value : 'another')))].sort().join(', ');
}

function serverNames({ answers }: Traffic): string {
  const values = answers.flatMap(({ headers }) =>
    [headers['server'] ?? [], headers['x-powered-by'] ?? []].flat(),
  );
  return [...new Set(values.map(products))].sort().join('; ') || 'nothing';
}
