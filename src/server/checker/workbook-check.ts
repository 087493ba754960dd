/**
 * The kind of a workbook by its name. Formats that the same rules hold for count as one: `ooxml` stands for xlsx, xlsm, xltx,
 * xltm and xlsb.
 */
export type WorkbookKind = 'ooxml' | 'xls' | 'ods';

const KINDS: ReadonlyMap<string, WorkbookKind> = new Map([
  ['xlsx', 'ooxml'],
  ['xlsm', 'ooxml'],
  ['xltx', 'ooxml'],
  ['xltm', 'ooxml'],
  ['xlsb', 'ooxml'],
  ['xls', 'xls'],
  ['ods', 'ods'],
]);

/** The kind of a workbook by its name; null for a name that is no workbook's. */
export function workbookKindOf(path: string): WorkbookKind | null {
  return KINDS.get(path.slice(path.lastIndexOf('.') + 1).toLowerCase()) ?? null;
}

/** The result of a check. */
export type Finding =
  /** Its parts are whole, and at least one of them is a sheet. */
  | 'opened'
  /** It is a workbook that opens with its owner's password only. */
  | 'protected'
  /** It is too large to be unpacked, but its directory is that of a whole workbook. */
  | 'sound'
  /** It is no workbook, whatever its name. */
  | 'foreign'
  /** It is a workbook that is not whole, or has no sheet. */
  | 'damaged'
  /** Its bytes could not be read. */
  | 'unread';

const SUCCESSES: ReadonlySet<Finding> = new Set(['opened', 'protected', 'sound']);

/** Whether a finding is that of a workbook that its owner can open. */
export function isSuccess(finding: Finding): boolean {
  return SUCCESSES.has(finding);
}

const LASTING: ReadonlySet<string> = new Set([...SUCCESSES, 'foreign', 'damaged'] satisfies Finding[]);

/** Whether a text names a finding that the same bytes lead to everywhere: the others depend on the machine and the moment. */
export function isLastingFinding(text: string): text is Finding {
  return LASTING.has(text);
}

/** The bytes of a file, or, of a large one, its two ends. */
export interface FileBytes {
  /** Of the whole file. */
  readonly sizeBytes: number;
  /** From its beginning; the whole file when it is as long as that. */
  readonly first: Uint8Array;
  /** Up to its end; empty when `first` is the whole file. */
  readonly last: Uint8Array;
}

/** Whether nothing of a file is left out. */
export function isWholeFile({ sizeBytes, first }: FileBytes): boolean {
  return first.length === sizeBytes;
}

/** A file of at most so many bytes is read whole; of a larger one only its ends are: it is not opened. */
export const OPENED_FILE_LIMIT_BYTES = 64 * 1024 * 1024;
/** How much of the end of a larger file is read: enough for the directory of a zip of some ten thousand parts. */
export const FILE_END_BYTES = 4 * 1024 * 1024;
