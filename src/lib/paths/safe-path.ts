import { hash } from 'node:crypto';

/** Longest segment below `mirror/`, in bytes: NAME_MAX of the common file systems, less the `.json` of a manifest. */
const MAX_SEGMENT_BYTES = 250;

const UNSAFE_CHARACTER = /[\p{Cc}/\\:*?"<>|%]/gu;
const LONE_SURROGATE = /\p{Surrogate}/gu;
/** Names that Windows gives to devices, with any extension (Microsoft, "Naming Files, Paths, and Namespaces"). */
const DEVICE_NAME = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:$|\.)/i;

/** Names of trees in the history: a branch with such a name would be mistaken for one. */
const DATED_NAME = /^\d{8}T\d{6}\.\d{3}Z(?:-replaced)?$/;

function percentEncode(text: string): string {
  return [...Buffer.from(text, 'utf8')]
    .map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`)
    .join('');
}

/** Cuts a segment to make room for a suffix, never through a character or an encoded byte. */
function cut(segment: string, suffix: string): string {
  let kept = '';
  let sizeBytes = Buffer.byteLength(suffix);
  for (const piece of segment.match(/%[0-9A-F]{2}|[^]/gu) ?? []) {
    sizeBytes += Buffer.byteLength(piece);
    if (sizeBytes > MAX_SEGMENT_BYTES) break;
    kept += piece;
  }
  return kept + suffix;
}

/** Appends `~` and a mark to a segment that would collide with another one. */
export function markSegment(segment: string, mark: string): string {
  return cut(segment, `~${mark}`);
}

/**
 * Turns any text into one path segment that no file system or share misreads. Different texts give different segments:
 * `%` itself is always encoded, so `%empty`, `%u` and `%~` can come from nothing else.
 */
export function encodeSegment(text: string): string {
  if (text === '') return '%empty';
  let segment = text
    .replace(UNSAFE_CHARACTER, percentEncode)
    .replace(LONE_SURROGATE, (unit) => `%u${unit.charCodeAt(0).toString(16).toUpperCase()}`);
  if (/[. ]$/.test(segment)) segment = segment.slice(0, -1) + percentEncode(segment.slice(-1));
  if (DEVICE_NAME.test(segment) || DATED_NAME.test(segment))
    segment = percentEncode(segment.slice(0, 1)) + segment.slice(1);
  return Buffer.byteLength(segment) > MAX_SEGMENT_BYTES
    ? cut(segment, `%~${hash('sha256', text).slice(0, 16)}`)
    : segment;
}

/** A repository's path below `mirror/`, before collisions: its full name with the slashes kept as folders. */
export function repositoryPath(fullName: string): string {
  return fullName.split('/').map(encodeSegment).join('/');
}

/** Text with only one Unicode form, and one lower case. */
const PLAIN = /^[\0-\x7f]*$/;

/** The form that two names share if a file system that ignores case or Unicode form takes them for one. */
export function foldName(name: string): string {
  return PLAIN.test(name)
    ? name.toLowerCase()
    : name.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC');
}
