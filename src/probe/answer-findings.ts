import type { Finding } from './table.ts';
import { type Find } from './finding.ts';
import type { ProbeAnswer } from './connection.ts';

/** Whether an answer says how long it is. */
export function lengthAnswer({ headers }: ProbeAnswer): string {
  if (headers['content-length'] !== undefined) return 'yes: Content-Length';
  return headers['transfer-encoding'] === undefined ? 'no' : 'no: in chunks';
}

function tagKind(tag: string | undefined): string {
  if (tag === undefined) return 'no';
  if (/^"[^"]*"$/.test(tag)) return 'yes: strong';
  return /^W\/"[^"]*"$/.test(tag) ? 'yes: weak' : 'yes: malformed';
}

/** What the entity tag of an answer means, and how the service took it in a condition. */
export function tagFindings(
  find: Find,
  prefix: 'archives' | 'files',
  answer: ProbeAnswer,
  conditional: ProbeAnswer | null,
): Finding[] {
  const tag = answer.headers['etag'];
  const isStrong = tag?.startsWith('"') === true;
  const honoured = conditional?.status === 304;
  const meaning =
    prefix === 'files'
      ? 'the mirror downloads archives, not single files'
      : honoured && isStrong
        ? 'full checks will be conditional requests: cheap for both sides'
        : 'each full check downloads the whole archive';
  return [
    find(
      `${prefix}.etag`,
      'is there an ETag?',
      tagKind(tag),
      prefix === 'files'
        ? meaning
        : isStrong
          ? 'the mirror remembers it'
          : 'the mirror remembers strong ones only',
    ),
    find(
      `${prefix}.conditional`,
      'is If-None-Match honoured?',
      conditional === null
        ? 'no ETag to ask with'
        : honoured
          ? 'yes: 304'
          : `no: status ${conditional.status}`,
      meaning,
    ),
  ];
}
