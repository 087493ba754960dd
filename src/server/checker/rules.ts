import type { WorkbookKind } from './workbook-check.ts';
import type { Container } from './sniff.ts';
import type { ZipEntry } from '../../lib/zip/directory.ts';

/** How a file is examined. */
export type Method =
  /** As a package of parts: Office Open XML, or OpenDocument. */
  | 'package'
  /** As an .xls, or whatever else a compound file holds. */
  | 'binary'
  /** It is a workbook only if it is encrypted, in a compound file. */
  | 'encrypted'
  /** As a table in HTML or an XML spreadsheet of Excel 2003. */
  | 'markup'
  /** Not at all: it is no workbook of its kind. */
  | 'none';

const METHODS: Readonly<Record<WorkbookKind, Readonly<Record<Container, Method>>>> = {
  ooxml: { zip: 'package', compound: 'encrypted', records: 'none', markup: 'none', other: 'none' },
  ods: { zip: 'package', compound: 'none', records: 'none', markup: 'none', other: 'none' },
  // Excel opens all of these under the name .xls, after a question.
  xls: { zip: 'package', compound: 'binary', records: 'binary', markup: 'markup', other: 'none' },
};

/** Chooses how a file is examined, by what its name and its first bytes say it is. */
export function methodFor(kind: WorkbookKind, container: Container): Method {
  return METHODS[kind][container];
}

/** The name of a part as rules have it: without a leading slash, and with slashes. */
export function partName(name: string): string {
  return name.replaceAll('\\', '/').replace(/^\/+/, '');
}

/** The part that every package of a kind holds (ECMA-376 part 2, section 10.1; OpenDocument 1.2 part 3, section 2.2.1). */
const REQUIRED_PART: Readonly<Record<WorkbookKind, string>> = {
  ooxml: '[content_types].xml',
  xls: '[content_types].xml',
  ods: 'content.xml',
};

/** Whether a package holds the part that makes it one of its kind. */
export function isPackageOf(kind: WorkbookKind, entries: readonly ZipEntry[]): boolean {
  return entries.some(({ name }) => partName(name).toLowerCase() === REQUIRED_PART[kind]);
}

const UNPACKED_LIMIT_BYTES = 512 * 1024 * 1024;
const RATIO_LIMIT = 250;
/** Of less than this no ratio is absurd. */
const RATIO_FREE_BYTES = 32 * 1024 * 1024;
const PARTS_LIMIT = 20_000;

/** Whether the parts of a package are few and small enough to be unpacked. */
export function isOpenable(entries: readonly Pick<ZipEntry, 'sizeBytes' | 'compressedBytes'>[]): boolean {
  const unpackedBytes = entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const packedBytes = entries.reduce((sum, { compressedBytes }) => sum + compressedBytes, 0);
  return (
    entries.length <= PARTS_LIMIT &&
    unpackedBytes <= UNPACKED_LIMIT_BYTES &&
    (unpackedBytes <= RATIO_FREE_BYTES || unpackedBytes <= RATIO_LIMIT * packedBytes)
  );
}

/** Whether a part is XML without which there is no workbook, so that it has to be whole. */
export function isEssentialXml(name: string): boolean {
  return /^(?:\[Content_Types\]\.xml|_rels\/\.rels|xl\/[^/]+\.xml|xl\/_rels\/[^/]+\.rels|xl\/worksheets\/[^/]+\.xml|content\.xml)$/i.test(
    name,
  );
}

/** How much of either end of a document is looked at. */
const XML_END_BYTES = 4096;
/** Things before the root element: how they begin and end, and what may not be in them. */
const PROLOGUE: ReadonlyArray<{ readonly begin: string; readonly end: string; readonly never?: string }> = [
  { begin: '<?', end: '?>' },
  { begin: '<!--', end: '-->' },
  { begin: '<!DOCTYPE', end: '>', never: '[' },
];
const SPACE = /\s*/y;
const ROOT = /<([^\s<>/!?]+)/y;

/** Where a pattern that is tied to its place ends. @returns null where it does not match */
function matchAt(
  pattern: RegExp,
  text: string,
  at: number,
): { readonly end: number; readonly part: string } | null {
  pattern.lastIndex = at;
  const match = pattern.exec(text);
  return match === null ? null : { end: pattern.lastIndex, part: match[1] ?? '' };
}

/**
 * Finds the name of the root element, and where it ends. Goes once from front to back: whoever made the document may have made it
 * for one expression of all this to try every way through it.
 */
function findRoot(text: string): { readonly end: number; readonly part: string } | null {
  for (let at = text.startsWith('\uFEFF') ? 1 : 0; ;) {
    at = matchAt(SPACE, text, at)?.end ?? at;
    const before = PROLOGUE.find(({ begin }) => text.startsWith(begin, at));
    if (before === undefined) return matchAt(ROOT, text, at);
    const from = at + before.begin.length;
    const end = text.indexOf(before.end, from);
    if (end === -1) return null;
    if (before.never !== undefined && text.slice(from, end).includes(before.never)) return null;
    at = end + before.end.length;
  }
}

/**
 * Whether XML ends where its root element ends, as far as its two ends show it. A document in another encoding than UTF-8, or
 * with a comment at its end, is believed.
 */
export function isWholeXml(bytes: Buffer): boolean {
  if (bytes[0] === 0xff || bytes[0] === 0xfe) return true;
  const start = bytes.toString('utf8', 0, XML_END_BYTES);
  const end = bytes.toString('utf8', Math.max(0, bytes.length - XML_END_BYTES)).trimEnd();
  const root = findRoot(start);
  if (root === null) return false;
  if (end.endsWith('-->') || new RegExp(`</${escape(root.part)}\\s*>$`).test(end)) return true;
  const isOneTag = start.indexOf('<', root.end) === -1 && bytes.length <= XML_END_BYTES;
  return isOneTag && end.endsWith('/>');
}

function escape(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

/** Whether XML declares document types: Office Open XML forbids it (ECMA-376 part 2, section 8.1.4). */
export function hasDocumentType(bytes: Buffer): boolean {
  return /<!DOCTYPE/i.test(bytes.toString('latin1', 0, XML_END_BYTES));
}

/** Whether text is a table in HTML, or an XML spreadsheet of Excel 2003. */
export function isSpreadsheetMarkup(text: string): boolean {
  return /<table[\s>]/i.test(text) || /urn:schemas-microsoft-com:office:spreadsheet/i.test(text);
}
