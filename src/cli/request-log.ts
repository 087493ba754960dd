import { systemCode } from '../model/disk-errors.ts';
import { printable } from '../model/humanize.ts';
import { scrub } from '../model/scrub.ts';
import type { RequestInfo } from '../service/service.ts';

/** What is asked for in the address of a request, and is no secret; what else stands there might be one. */
const SHOWN_PARAMETERS: ReadonlySet<string> = new Set([
  'branch',
  'commit',
  'page',
  'page_size',
  'path',
  'service',
  'status',
]);

/** What stands where something was left out. */
const HIDDEN = '[hidden]';

/** A key of ours wherever it stands, also one that was revoked. */
const KEYS = /(wb[pgts]_)[\w-]{8,}/g;

/** One parameter of a query as it may be shown. */
function showParameter(parameter: string): string {
  const mark = parameter.indexOf('=');
  const name = mark === -1 ? parameter : parameter.slice(0, mark);
  if (parameter === '' || SHOWN_PARAMETERS.has(name)) return parameter;
  return mark === -1 ? HIDDEN : `${name}=${HIDDEN}`;
}

/**
 * The target of a request as a log may show it. No credential belongs there, but whoever does not know that puts it there, and a
 * log is read by others.
 * @param target path and query as they were sent
 * @param secrets what must not be shown wherever it stands
 */
export function showTarget(target: string, secrets: readonly string[]): string {
  const mark = target.indexOf('?');
  const path = mark === -1 ? target : target.slice(0, mark);
  const query =
    mark === -1
      ? ''
      : `?${target
          .slice(mark + 1)
          .split('&')
          .map(showParameter)
          .join('&')}`;
  // A proxy's request has a host, and may have credentials before it (RFC 9112, section 3.2.2).
  const shown = path.replace(/^(\w+:\/\/)[^/@]*@/, `$1${HIDDEN}@`) + query;
  return printable(scrub(shown, secrets).replaceAll(KEYS, `$1${HIDDEN}`));
}

/** A line for each request, and one more for why the service failed to answer it. */
export function requestLines(
  { method, path, status, durationMs, error }: RequestInfo,
  secrets: readonly string[],
  now: Date,
): { readonly line: string; readonly failure: string | null } {
  const line = `${now.toISOString()} ${method} ${showTarget(path, secrets)} ${status} ${Math.round(durationMs)} ms`;
  if (error === undefined) return { line, failure: null };
  // Only the connection of the request itself ends so: nobody is left to be answered, and nothing is wrong here.
  if (systemCode(error) === 'ECONNRESET') return { line: `${line}, given up by the client`, failure: null };
  const why = error instanceof Error ? error.message : 'for an unknown reason';
  return { line, failure: `! ${line}: ${printable(scrub(why, secrets).replaceAll(KEYS, `$1${HIDDEN}`))}` };
}
