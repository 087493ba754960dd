import { examine } from './examine.ts';
import type { FileBytes, Finding, WorkbookKind } from './workbook-check.ts';

/** Finds out whether files are workbooks. */
export interface WorkbookChecker {
  /** How many files are to be checked at once. */
  readonly places: number;
  /** Never rejects, and takes bounded time and memory. Gives null for what was cut off by `close`. */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding | null>;
  /** Ends what is under way: of those files nothing is found. */
  readonly close: () => Promise<void>;
}

/** Unpacking is done by Node's own threads; more files at once would take them from those who wait for an answer. */
const PLACES = 2;

/** Makes a checker. */
export function createChecker(): WorkbookChecker {
  const closed = new AbortController();
  return {
    places: PLACES,
    check: (kind, file) => examine(kind, file, closed.signal),
    close: () => {
      closed.abort();
      return Promise.resolve();
    },
  };
}
