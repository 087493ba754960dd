import { systemCode } from '../../lib/errors/disk-errors.ts';
import { scrub } from '../../lib/text/scrub.ts';
import type { RequestInfo } from '../http/service.ts';

/** Parameters of requests that are no secrets; any other might be one. */
const SHOWN_PARAMETERS: ReadonlySet<string> = new Set([
  'branch',
  'commit',
  'page',
  'page_size',
  'path',
  'q',
  'service',
  'status',
]);

/** Stands in the place of a secret. */
const HIDDEN = '[hidden]';

/** A key of ours wherever it stands, also one that was revoked, and also where some of it is encoded. */
const KEYS = /(wb[pgts]_)[\w%-]{8,}/g;

/** A text that is encoded more often than this was meant to be hidden. */
const MAX_ENCODINGS = 4;

/** So many parameters are shown, far more than there are; anybody may send thousands, and each of them takes its time. */
const MOST_PARAMETERS = 20;

/** Hides user name and password before a host: up to the last `@` after `//`, and in any segment after a colon. */
function hideUsers(text: string): string {
  if (!text.includes('@')) return text;
  const slashes = text.indexOf('//');
  const last = text.lastIndexOf('@');
  const whole =
    slashes !== -1 && last > slashes ? text.slice(0, slashes + 2) + HIDDEN + text.slice(last) : text;
  return whole
    .split('/')
    .map((segment) => {
      const at = segment.lastIndexOf('@');
      const isUser = at !== -1 && segment.slice(0, at).includes(':');
      return isUser ? HIDDEN + segment.slice(at) : segment;
    })
    .join('/');
}

/** Undoes one encoding for addresses (RFC 3986, section 2.1); what is none stays. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}

/**
 * Hides what may be a secret in a text. Where it is encoded, the text is shown decoded, without it.
 * @param secrets what must not be shown wherever it stands
 */
function conceal(text: string, secrets: readonly string[]): string {
  const hide = (plain: string): string => hideUsers(scrub(plain, secrets).replaceAll(KEYS, `$1${HIDDEN}`));
  let shown = hide(text);
  let form = shown;
  for (let encodings = 0; encodings < MAX_ENCODINGS; encodings += 1) {
    const plain = decoded(form);
    if (plain === form) return shown;
    form = hide(plain);
    if (form !== plain) shown = form;
  }
  return decoded(form) === form ? shown : HIDDEN;
}

/** One parameter of a query as it may be shown. */
function showParameter(parameter: string, secrets: readonly string[]): string {
  const mark = parameter.indexOf('=');
  const name = mark === -1 ? parameter : parameter.slice(0, mark);
  if (parameter !== '' && !SHOWN_PARAMETERS.has(name))
    return mark === -1 ? HIDDEN : `${conceal(name, secrets)}=${HIDDEN}`;
  // A plus stands for a space there.
  const spaced = parameter.replaceAll('+', ' ');
  const shown = conceal(spaced, secrets);
  return shown === spaced ? parameter : shown;
}

/**
 * The target of a request as a log may show it. No credential belongs there, but whoever does not know that puts it there, and a
 * log is read by others.
 * @param target path and query as they were sent
 * @param secrets what must not be shown wherever it stands
 */
function showTarget(target: string, secrets: readonly string[]): string {
  const mark = target.indexOf('?');
  if (mark === -1) return conceal(target, secrets);
  const parameters = target.slice(mark + 1).split('&', MOST_PARAMETERS + 1);
  const shown = parameters.slice(0, MOST_PARAMETERS).map((parameter) => showParameter(parameter, secrets));
  if (parameters.length > MOST_PARAMETERS) shown.push('…');
  return `${conceal(target.slice(0, mark), secrets)}?${shown.join('&')}`;
}

/** Enough to know a program by. */
const PROGRAM_LIMIT_CHARACTERS = 80;

function describeClient({ address, program }: RequestInfo['client']): string {
  const from = `from ${address ?? 'an unknown address'}`;
  return program === null ? from : `${from}, ${program.slice(0, PROGRAM_LIMIT_CHARACTERS)}`;
}

/**
 * A line for each request, and one more for why the service failed to answer it.
 * @param isDetailed says who asked, too
 */
export function requestLines(
  { method, path, status, durationMs, client, error }: RequestInfo,
  secrets: readonly string[],
  isDetailed: boolean,
): { readonly line: string; readonly failure: string | null } {
  const took = `${method} ${showTarget(path, secrets)} ${status} ${Math.round(durationMs)} ms`;
  const line = isDetailed ? `${took}, ${conceal(describeClient(client), secrets)}` : took;
  if (error === undefined) return { line, failure: null };
  // Only the connection of the request itself ends so: nobody is left to be answered, and nothing is wrong here.
  if (systemCode(error) === 'ECONNRESET') return { line: `${line}, given up by the client`, failure: null };
  const why = error instanceof Error ? error.message : 'for an unknown reason';
  return { line, failure: `${line}: ${conceal(why, secrets)}` };
}
