import type { Downloaded } from './download.ts';

/** Facts about a file before it is downloaded. */
export interface ExpectedFile {
  readonly sizeBytes?: number;
  /** In hexadecimal digits. */
  readonly sha256?: string;
}

/** A file as it came. */
export interface ReceivedFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly headers: Downloaded['headers'];
  /** Its first {@link START_BYTES}, or all of it where it has fewer. */
  readonly start: Uint8Array;
}

/** How much of a file tells its kind. */
export const START_BYTES = 512;

/** How zip archives begin: with an entry, or, where they are empty, with the end of the directory (APPNOTE 6.3.10, 4.3). */
const ARCHIVE_STARTS = ['PK\u0003\u0004', 'PK\u0005\u0006', 'PK\u0006\u0006'];

/** Whether a file that begins so may be a zip archive. */
export function isArchiveStart(start: Uint8Array): boolean {
  const text = Buffer.from(start).toString('latin1');
  return ARCHIVE_STARTS.some((magic) => text.startsWith(magic));
}

const LOCAL_HEADER = 'PK\u0003\u0004';
/** Where the name of the first entry begins, and where its length stands (APPNOTE 6.3.10, 4.3.7). */
const NAME_AT = 30;
const NAME_LENGTH_AT = 26;
/** Of a compound file (MS-CFB, section 2.2): the old workbooks, and new ones that have a password (MS-OFFCRYPTO, section 1.3). */
const COMPOUND_FILE = '\u00d0\u00cf\u0011\u00e0\u00a1\u00b1\u001a\u00e1';
/** Names in packages of workbooks (ECMA-376 part 2; OpenDocument 1.3 part 2): no repository has a folder of files like that. */
const PACKAGE_PARTS =
  /^(?:\[Content_Types\]\.xml$|_rels\/|docProps\/|xl\/|customXml\/|customUI\/|mimetype$|META-INF\/|content\.xml$)/;
/** Whether a file that begins so may be a compound file. */
export function isCompoundStart(start: Uint8Array): boolean {
  return Buffer.from(start).toString('latin1').startsWith(COMPOUND_FILE);
}

const PACKAGES = /\.(?:xls[xmb]|xlt[xm]|ods)$/i;
const OLD_WORKBOOKS = /\.xl[st]$/i;

/**
 * Decides whether what came for the path of a file is that file. Where its digest is known, that alone counts. Where it is not, it
 * must not look like anything else that a service may answer with: a web page, an error in JSON, or the archive of a folder, which
 * begins as a workbook does. Of files that are no workbooks only their headers and first bytes can tell.
 */
export function isExpectedFile(file: ReceivedFile, expected: ExpectedFile): boolean {
  if (expected.sizeBytes !== undefined && expected.sizeBytes !== file.sizeBytes) return false;
  if (expected.sha256 !== undefined) return expected.sha256.toLowerCase() === file.sha256;
  if (isSomethingElse(file)) return false;
  const isCompound = isCompoundStart(file.start);
  if (PACKAGES.test(file.path)) return isCompound || isPackage(file.start);
  return !OLD_WORKBOOKS.test(file.path) || isCompound;
}

function isSomethingElse({ path, headers, start }: ReceivedFile): boolean {
  const type = headers['content-type']?.trim().toLowerCase() ?? '';
  const text = Buffer.from(start).toString('latin1').trimStart();
  const isPage = type.startsWith('text/html') || /^<(?:!doctype html|html)/i.test(text);
  if (isPage && !/\.x?html?$/i.test(path)) return true;
  if (/^application\/(?:[\w.-]+\+)?json/.test(type) && !/json/i.test(extensionOf(path))) return true;
  const isArchive = /^application\/(?:x-)?zip/.test(type) || namesArchive(headers['content-disposition']);
  return isArchive && !/^zip$/i.test(extensionOf(path));
}

/** Whether the name to save it by is that of an archive (RFC 6266). */
function namesArchive(disposition: string | undefined): boolean {
  const parameters = disposition?.split(';').map((each) => each.trim()) ?? [];
  return parameters.some((each) => /^filename\*?\s*=/i.test(each) && /\.zip"?$/i.test(each));
}

function extensionOf(path: string): string {
  return /\.([^./]*)$/.exec(path)?.[1] ?? '';
}

function isPackage(start: Uint8Array): boolean {
  const bytes = Buffer.from(start);
  if (bytes.length < NAME_AT || bytes.toString('latin1', 0, 4) !== LOCAL_HEADER) return false;
  const nameBytes = bytes.readUInt16LE(NAME_LENGTH_AT);
  return PACKAGE_PARTS.test(bytes.toString('latin1', NAME_AT, NAME_AT + nameBytes));
}
