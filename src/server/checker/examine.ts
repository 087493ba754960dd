import { crc32, inflateRawSync } from 'node:zlib';

import { parse_zip as parsePackage, read as readWorkbook, type WorkBook } from '@e965/xlsx';

import { type FileBytes, type Finding, isWholeFile, type WorkbookKind } from './workbook-check.ts';
import {
  hasDocumentType,
  isEssentialXml,
  isOpenable,
  isPackageOf,
  isReadPart,
  isSpreadsheetMarkup,
  isWholeXml,
  methodFor,
  partName,
} from './rules.ts';
import { decodeText, sniff } from './sniff.ts';
import { compressedBytesOf, readZipDirectory, type ZipEntry } from './zip-directory.ts';

/** The files of a package as the library holds them between reading a zip and reading a workbook. */
interface PackageFiles {
  readonly FullPaths: readonly string[];
  readonly FileIndex: ReadonlyArray<{
    readonly name: string;
    readonly content: Buffer;
    /** 2 for a file ([MS-CFB], section 2.6.1). */
    readonly type: 2;
    readonly size: number;
  }>;
}

declare module '@e965/xlsx' {
  /** Reads a workbook from the files of its package; left out of the library's own declarations. */
  function parse_zip(files: PackageFiles, options?: ParsingOptions): WorkBook;
}

/** So many rows of each sheet are read: enough to see that the sheet can be, and bounded whatever a sheet claims to hold. */
const SHEET_ROWS = 100;
/** What is left out is not needed to tell that a workbook opens. */
const OPTIONS = {
  type: 'buffer',
  dense: true,
  cellFormula: false,
  cellHTML: false,
  cellText: false,
  sheetRows: SHEET_ROWS,
} as const;

/** A part of a package as the library takes it. */
interface Part {
  readonly name: string;
  readonly content: Buffer;
}

/** The library wants the styles of an OpenDocument, which may be left out (OpenDocument 1.2 part 3, section 2.2.1). */
const STYLES: Part = { name: 'styles.xml', content: Buffer.from('<office:document-styles/>') };

const STORED = 0;
const DEFLATED = 8;

/** Unpacks a part and holds it against its size and checksum. @returns null for one that is damaged */
function unpack(file: Buffer, entry: ZipEntry): Buffer | null {
  const packed = compressedBytesOf(file, entry);
  if (packed === null || entry.isEncrypted) return null;
  let content: Buffer;
  if (entry.method === STORED) content = packed;
  else if (entry.method !== DEFLATED) return null;
  else {
    try {
      content = inflateRawSync(packed, { maxOutputLength: Math.max(1, entry.sizeBytes) });
    } catch {
      return null;
    }
  }
  const isWhole = content.length === entry.sizeBytes && crc32(content) === entry.crc32;
  return isWhole ? content : null;
}

/** Unpacks everything, and keeps what the library reads. @returns null where some part is damaged */
function readParts(file: Buffer, entries: readonly ZipEntry[]): Part[] | null {
  const parts: Part[] = [];
  for (const entry of entries) {
    const content = unpack(file, entry);
    if (content === null) return null;
    const name = partName(entry.name);
    if (isReadPart(name)) parts.push({ name, content });
  }
  return parts;
}

/** Whether an OpenDocument package is encrypted (OpenDocument 1.2 part 3, section 4.8). */
function isEncryptedDocument(parts: readonly Part[]): boolean {
  const manifest = parts.find(({ name }) => name === 'META-INF/manifest.xml');
  return manifest?.content.includes('encryption-data') ?? false;
}

/** Whether the library got hold of the sheets; it leaves out a sheet that it cannot read. */
function findingOf({ SheetNames, Sheets }: WorkBook): Finding {
  // Sheets of charts and dialogs are not its strength: it is enough that something can be opened.
  return SheetNames.some((name) => Sheets[name] !== undefined) ? 'opened' : 'damaged';
}

function examinePackage(kind: WorkbookKind, file: Buffer, entries: readonly ZipEntry[]): Finding {
  const parts = readParts(file, entries);
  if (parts === null) return 'damaged';
  if (kind === 'ods' && isEncryptedDocument(parts)) return 'protected';
  const essential = parts.filter(({ name }) => isEssentialXml(name));
  if (!essential.every(({ content }) => isWholeXml(content))) return 'damaged';
  if (kind !== 'ods' && essential.some(({ content }) => hasDocumentType(content))) return 'damaged';
  if (kind === 'ods' && !parts.some(({ name }) => name === STYLES.name)) parts.push(STYLES);
  return findingOf(
    parsePackage(
      {
        FullPaths: parts.map(({ name }) => name),
        FileIndex: parts.map(({ name, content }) => ({ name, content, type: 2, size: content.length })),
      },
      OPTIONS,
    ),
  );
}

/** @param bytes the whole file, or its beginning and its end */
function examineZip(kind: WorkbookKind, { sizeBytes, first, last }: FileBytes): Finding {
  const end = last.length === 0 ? first : last;
  const entries = readZipDirectory({ bytes: Buffer.from(end.buffer, end.byteOffset, end.length), sizeBytes });
  if (entries === null) return 'damaged';
  if (!isPackageOf(kind, entries)) return 'foreign';
  if (end !== first || !isOpenable(entries)) return 'sound';
  return examinePackage(kind, Buffer.from(first.buffer, first.byteOffset, first.length), entries);
}

function hasEncryptedPackage(file: Buffer): boolean {
  return file.includes(Buffer.from('EncryptedPackage', 'utf16le'));
}

function examineMarkup(file: Buffer): Finding {
  const text = decodeText(file);
  if (!isSpreadsheetMarkup(text)) return 'foreign';
  return findingOf(readWorkbook(text, { ...OPTIONS, type: 'string' }));
}

/**
 * Whether an error of the library says that it needs a password. A compound file with an encrypted package that it does not
 * understand, as one under rights management, opens with its owner's rights only, too.
 */
function isAboutPassword(error: unknown): boolean {
  return error instanceof Error && /password|^Encryption|^ECMA-376 Encrypted/i.test(error.message);
}

function examineAny(kind: WorkbookKind, file: FileBytes): Finding {
  const first = Buffer.from(file.first.buffer, file.first.byteOffset, file.first.length);
  const method = methodFor(kind, sniff(first));
  if (method === 'none') return 'foreign';
  if (method === 'package') return examineZip(kind, file);
  // A compound file keeps its directory anywhere, so that nothing tells whether a large one is whole.
  if (!isWholeFile(file)) return method === 'markup' ? 'foreign' : 'sound';
  if (method === 'markup') return examineMarkup(first);
  if (method === 'encrypted' && !hasEncryptedPackage(first)) return 'foreign';
  return findingOf(readWorkbook(first, OPTIONS));
}

/**
 * Finds out whether a file is a workbook that can be opened. It may take any time and memory: whoever calls bounds both.
 * @param kind what its name says that it is
 */
export function examine(kind: WorkbookKind, file: FileBytes): Finding {
  try {
    return examineAny(kind, file);
  } catch (error) {
    return isAboutPassword(error) ? 'protected' : 'damaged';
  }
}
