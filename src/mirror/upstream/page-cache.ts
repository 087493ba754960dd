import { createHash } from 'node:crypto';

import type { WorkbookRow } from './listing.ts';
import type { Reading } from './pages.ts';

/** A page of the list of workbooks, as it was understood. */
export interface Page {
  /** The address that it came from. */
  readonly url: URL;
  readonly count: number;
  readonly next: URL | null;
  readonly rows: readonly WorkbookRow[];
  readonly malformed: number;
}

/** A page, and what tells whether it has changed. */
export interface KnownPage {
  readonly page: Page;
  /** Of the bytes that it was understood from. */
  readonly digest: string;
  /** Strong entity tag, for conditional requests (RFC 9110, section 13.1.2); null where the service gives none. */
  readonly etag: string | null;
}

/** A reading, and the pages that it was made from. */
export interface ListReading extends Reading<WorkbookRow> {
  readonly pages: readonly Page[];
}

/**
 * What is known of a list from when it was read last: a page of the same bytes is not understood a second time, and a list of
 * the same pages not judged. Of one list only the last reading is kept, so that it grows with the list and no further.
 */
export class PageCache {
  private pages = new Map<string, KnownPage>();
  private reading: ListReading | null = null;
  private isAheadRefused = false;

  /** What is known of the page that an address gave. */
  page(target: string): KnownPage | null {
    return this.pages.get(target) ?? null;
  }

  /** The last reading, if it came to its end. */
  get last(): ListReading | null {
    return this.reading;
  }

  /** Whether pages may be asked for before the page before them has named them. */
  get mayAskAhead(): boolean {
    return !this.isAheadRefused;
  }

  /** Notes that the service refused a page that was asked for ahead: no later reading asks ahead again. */
  refuseAhead(): void {
    this.isAheadRefused = true;
  }

  /** Notes that a page has changed: the old one is forgotten at once, so that there are never two of all. */
  forget(target: string): void {
    if (this.pages.delete(target)) this.reading = null;
  }

  /** Keeps a reading that came to its end, and the pages that it was made from instead of all others. */
  keep(reading: ListReading, pages: Map<string, KnownPage>): void {
    this.reading = reading.isCut ? null : reading;
    this.pages = pages;
  }
}

/** A strong digest of the bytes of an answer. */
export function digestOfBytes(pieces: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('base64');
}
