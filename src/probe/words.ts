import type { ProbeAnswer } from './connection.ts';

/** Kinds of answers that are told apart. */
export type Kind = 'JSON' | 'HTML page' | 'zip archive' | 'empty' | 'other' | 'no answer';

/** Names what an answer seems to be, by its first bytes and, where they say nothing, by its media type. */
export function kindOf({ status, headers, body }: ProbeAnswer): Kind {
  if (status === 0) return 'no answer';
  if (body.length === 0) return 'empty';
  if (body.subarray(0, 2).toString('latin1') === 'PK') return 'zip archive';
  const start = body.subarray(0, 200).toString('utf8').trimStart();
  if (/^<(?:!doctype html|html|head|body)/i.test(start)) return 'HTML page';
  if (headers['content-type']?.includes('json') === true || /^[{[]/.test(start)) return 'JSON';
  return headers['content-type']?.includes('text/html') === true ? 'HTML page' : 'other';
}

/** Whether an answer is contents: a zip archive. */
export function isArchive(answer: ProbeAnswer): boolean {
  return answer.status === 200 && kindOf(answer) === 'zip archive';
}

/** An object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a value is an object of JSON. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A member that is an object; an empty one where there is none. */
export function partOf(row: JsonObject, field: string): JsonObject {
  const value = row[field];
  return isObject(value) ? value : {};
}

/** The value of an answer in JSON; undefined for anything else. */
export function jsonOf({ body }: Pick<ProbeAnswer, 'body'>): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Names of fields that services like this one have (service specification, sections 2.1 to 2.5, and the usual ones). Another may be
 * the name of a person, or of something that somebody made, used as a key.
 */
const KNOWN_FIELDS: ReadonlySet<string> = new Set(
  `_links action archived author branch branches clone_url commit content count created_at created_by default_branch deleted_at
  description digest display_name email failure file full_name has_more html_url id integration kind labels limit links message modules
  name next offset owner page page_size pages parent path per_page permissions previous private processing provider results sha sheets
  size slug ssh_url status success synced_at tags total total_count total_pages type updated_at updated_by url version visibility
  workbooks`.split(/\s+/),
);

/** Names of fields that errors usually have (RFC 9457, and the usual frameworks), and those of a page of a list. */
const ERROR_FIELDS: ReadonlySet<string> = new Set(
  `cause code count description detail details error error_code error_description errors hint id instance loc message messages method
  msg name next non_field_errors path previous reason requestId request_id results status statusCode success timestamp title traceId
  trace_id type url`.split(/\s+/),
);

const MOST_NAMES = 12;

/** Names of fields for the report: a few at most, and known ones only; the others are counted. */
function shownFields(
  names: readonly string[],
  known: ReadonlySet<string>,
  show: (name: string) => string,
): string {
  const shown = names.filter((name) => known.has(name)).slice(0, MOST_NAMES);
  const others = names.length - shown.length;
  const rest = others === 0 ? [] : [`${others} other${others === 1 ? '' : 's'}`];
  return [...shown.map(show), ...rest].join(', ');
}

/** Names of fields of rows, sorted. */
export function fieldNames(names: Iterable<string>): string {
  return shownFields([...new Set(names)].sort(), KNOWN_FIELDS, (name) => name);
}

/** Names of fields that rows have beside the specified ones; `none` where there is none. */
export function furtherFields(rows: readonly JsonObject[], specified: readonly string[]): string {
  return (
    fieldNames(rows.flatMap((row) => Object.keys(row).filter((name) => !specified.includes(name)))) || 'none'
  );
}

/** The status and the shape of an answer: `404 JSON {error{code, message}}`. */
export function shapeOf(answer: ProbeAnswer): string {
  const kind = kindOf(answer);
  if (kind === 'no answer') return kind;
  const value = kind === 'JSON' ? jsonOf(answer) : undefined;
  const fields = isObject(value) ? ` {${shapeOfFields(value)}}` : Array.isArray(value) ? ' [array]' : '';
  return `${answer.status} ${kind}${fields}`;
}

function shapeOfFields(value: JsonObject): string {
  return shownFields(Object.keys(value), ERROR_FIELDS, (name) => {
    const member = value[name];
    return isObject(member) ? `${name}{${shapeOfFields(member)}}` : name;
  });
}

/** `yes` for an archive, the shape of any other answer. */
export function archiveOrShape(answer: ProbeAnswer): string {
  return isArchive(answer) ? 'yes' : shapeOf(answer);
}

/** The media type of an answer as it may be shown: type and subtype, without parameters. */
export function mediaType(header: string | undefined): string {
  const type = header?.split(';')[0]?.trim().toLowerCase() ?? '';
  if (type === '') return 'none';
  return /^(?:application|text|image|multipart)\/[a-z0-9][a-z0-9.+-]{0,80}$/.test(type) ? type : 'another';
}

/** How often each value occurs. */
function countsOf<T>(values: Iterable<T>): Array<[T, number]> {
  return [...Map.groupBy(values, (value) => value)].map(([value, all]) => [value, all.length]);
}

function mostFirst([, one]: [string, number], [, other]: [string, number]): number {
  return other - one;
}

/** Values with how often they occur, most often first: `modify 12, add 3`. Only what reads like a word is shown. */
export function tally(values: readonly unknown[]): string {
  const words = values.map((value) =>
    typeof value === 'string' && /^[a-z][a-z_-]{0,19}$/i.test(value) ? value : otherKind(value),
  );
  const counts = countsOf(words.sort()).sort(mostFirst);
  const rest = counts.slice(MOST_NAMES).reduce((sum, [, count]) => sum + count, 0);
  const shown = counts.slice(0, MOST_NAMES).map(([text, count]) => `${text} ${count}`);
  return [...shown, ...(rest > 0 ? [`further values ${rest}`] : [])].join(', ');
}

function otherKind(value: unknown): string {
  if (value === undefined) return '(missing)';
  if (value === null) return '(null)';
  return typeof value === 'string' ? '(other text)' : '(no text)';
}

/** The form of a time: its digits and signs, never the time itself. */
export function timeForm(value: unknown): string {
  if (typeof value !== 'string') return value === null ? '(null)' : '(no text)';
  const match = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.(\d+))?(Z|[+-]\d{2}:?\d{2})?$/.exec(value);
  if (match === null) return 'another form';
  const [, fraction = '', offset = 'no offset'] = match;
  const decimals = fraction.length === 6 ? 'microseconds' : `${fraction.length} decimals`;
  const zone = /^[+-]00:?00$/.test(offset) ? '+00:00' : /^[+-]/.test(offset) ? 'local offset' : offset;
  return `${fraction === '' ? 'no fraction' : decimals}, ${zone}`;
}

/** The forms of times with how often they occur. */
export function timeForms(values: readonly unknown[]): string {
  return countsOf(values.map(timeForm))
    .sort(mostFirst)
    .map(([form, count]) => `${form} (${count})`)
    .join('; ');
}
