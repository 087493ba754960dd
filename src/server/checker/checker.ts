import type { ZipEntry } from '../../lib/zip/directory.ts';
import { bytesInMemory, type ZipBytes } from '../../lib/zip/zip-bytes.ts';
import { hasWholeRecords, readCompound } from './compound.ts';
import { listParts, type Part, unpackPart } from './parts.ts';
import {
  hasDocumentType,
  isEssentialXml,
  isOpenable,
  isPackageOf,
  isSpreadsheetMarkup,
  isWholeXml,
  methodFor,
  partName,
} from './rules.ts';
import { decodeText, sniff } from './sniff.ts';
import { type FileBytes, type Finding, isWholeFile, type WorkbookKind } from './workbook-check.ts';

/** Unpacking is done by Node's own threads; more files at once would take them from those who wait for an answer. */
const PLACES = 2;

/** Makes a checker, which finds out whether files are workbooks. */
export function createChecker() {
  const closed = new AbortController();
  return {
    /** How many files are to be checked at once. */
    places: PLACES,
    /** Never rejects, and takes bounded time and memory. Gives null for what was cut off by `close`. */
    check: (kind: WorkbookKind, file: FileBytes): Promise<Finding | null> =>
      examine(kind, file, closed.signal),
    /** Ends what is under way: of those files nothing is found. */
    close: (): void => closed.abort(),
  };
}

/** The parts of a package that are looked into, by their names. */
type Parts = ReadonlyMap<string, string>;

/** The types of a workbook's main part (ECMA-376 part 1, 12.2; [MS-XLSB], 2.1.7.62). */
const MAIN_PART = /(?:sheet|template)(?:\.macroEnabled)?\.main\+xml|sheet\.binary\.macroEnabled\.main/i;

/** Unpacks everything, and keeps what is looked into. @returns null where some part is damaged */
async function readParts(
  bytes: ZipBytes,
  entries: readonly ZipEntry[],
  signal: AbortSignal,
): Promise<Part[] | null> {
  const parts: Part[] = [];
  for (const entry of entries) {
    const part = await unpackPart(bytes, entry, signal);
    if (part === null) return null;
    const name = partName(part.name);
    if (isLookedInto(name)) parts.push({ name, content: part.content });
  }
  return parts;
}

function isLookedInto(name: string): boolean {
  return isEssentialXml(name) || name === 'META-INF/manifest.xml';
}

/** Whether an OpenDocument is a spreadsheet with a table, or one that is encrypted (OpenDocument 1.2 part 3, sections 2.2.1 and 4.8). */
function findOpenDocument(parts: readonly Part[], texts: Parts): Finding {
  const manifest = texts.get('META-INF/manifest.xml');
  if (manifest === undefined) return 'damaged';
  if (manifest.includes('encryption-data')) return 'protected';
  if (!areWhole(parts)) return 'damaged';
  const content = texts.get('content.xml') ?? '';
  const isSpreadsheet = /<office:spreadsheet[\s>]/.test(content) && /<table:table[\s>]/.test(content);
  return isSpreadsheet ? 'opened' : 'damaged';
}

function areWhole(parts: readonly Part[]): boolean {
  return parts.every(({ name, content }) => !isEssentialXml(name) || isWholeXml(content));
}

/** Whether an Office Open XML package has a workbook, and that has a sheet which is there (ECMA-376 part 1, 12.3). */
function findOpenXml(parts: readonly Part[], texts: Parts, names: ReadonlySet<string>): Finding {
  if (!areWhole(parts)) return 'damaged';
  if (parts.some(({ name, content }) => isEssentialXml(name) && hasDocumentType(content))) return 'damaged';
  if (!MAIN_PART.test(texts.get('[content_types].xml') ?? '')) return 'damaged';
  const sheets = [...names].filter((name) =>
    /^xl\/(?:work|chart|dialog|macro)sheets\/[^/]+\.(?:xml|bin)$/.test(name),
  );
  if (names.has('xl/workbook.bin')) return sheets.length > 0 ? 'opened' : 'damaged';
  const workbook = texts.get('xl/workbook.xml');
  if (workbook === undefined || !/<(?:\w+:)?sheet\s/.test(workbook)) return 'damaged';
  return sheets.length > 0 ? 'opened' : 'damaged';
}

async function examinePackage(
  kind: WorkbookKind,
  bytes: ZipBytes,
  entries: readonly ZipEntry[],
  signal: AbortSignal,
): Promise<Finding> {
  const parts = await readParts(bytes, entries, signal);
  if (parts === null) return 'damaged';
  const textOf = ({ content }: Part): string => decodeText(content);
  if (kind === 'ods') return findOpenDocument(parts, new Map(parts.map((part) => [part.name, textOf(part)])));
  const texts = new Map(parts.map((part) => [part.name.toLowerCase(), textOf(part)]));
  return findOpenXml(parts, texts, new Set(entries.map(({ name }) => partName(name).toLowerCase())));
}

/** @param file the whole file, or its beginning and its end */
async function examineZip(
  kind: WorkbookKind,
  { sizeBytes, first, last }: FileBytes,
  signal: AbortSignal,
): Promise<Finding> {
  const end = last.length === 0 ? first : last;
  const bytes = bytesInMemory(Buffer.from(end.buffer, end.byteOffset, end.length), sizeBytes);
  const entries = await listParts(bytes, signal);
  if (entries === null) return 'damaged';
  if (!isPackageOf(kind, entries)) return 'foreign';
  if (end !== first || !isOpenable(entries)) return 'sound';
  return examinePackage(kind, bytes, entries, signal);
}

const OF_COMPOUND = {
  workbook: 'opened',
  encrypted: 'protected',
  other: 'foreign',
  damaged: 'damaged',
} as const;

function examineBinary(file: Buffer): Finding {
  if (sniff(file) === 'compound') return OF_COMPOUND[readCompound(file)];
  return hasWholeRecords(file) ? 'opened' : 'damaged';
}

/**
 * Finds out whether a file is a workbook, as far as its containers tell: names, sizes and checksums of its parts, its kind by its
 * content types, and that a sheet is there. Cells are not read. Takes bounded time and memory.
 * @param kind what its name says that it is
 * @returns null where `signal` cut it off
 */
async function examine(kind: WorkbookKind, file: FileBytes, signal: AbortSignal): Promise<Finding | null> {
  const first = Buffer.from(file.first.buffer, file.first.byteOffset, file.first.length);
  const method = methodFor(kind, sniff(first));
  if (signal.aborted) return null;
  if (method === 'none') return 'foreign';
  if (method === 'package') {
    return examineZip(kind, file, signal).catch((error: unknown) => {
      if (signal.aborted) return null;
      throw error;
    });
  }
  // A compound file keeps its directory anywhere, so that nothing tells whether a large one is whole.
  if (!isWholeFile(file)) return method === 'markup' ? 'foreign' : 'sound';
  if (method === 'markup') return isSpreadsheetMarkup(decodeText(first)) ? 'opened' : 'foreign';
  if (method === 'encrypted') return readCompound(first) === 'encrypted' ? 'protected' : 'foreign';
  return examineBinary(first);
}
