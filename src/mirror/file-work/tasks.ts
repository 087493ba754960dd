import type { StopFlag } from './failures.ts';

/**
 * Work on many files at a time. It is done in threads of its own by synchronous calls, which cost a fraction of asynchronous
 * ones where a file takes microseconds, and leave the main thread free where a disk hangs.
 */
export interface Tasks {
  readonly extract: { readonly request: ExtractRequest; readonly result: readonly Extracted[] };
  readonly link: { readonly request: LinkRequest; readonly result: LinkResult };
  readonly walk: { readonly request: WalkRequest; readonly result: Walked };
}

/** A task on its way to a thread. */
export interface Question<Kind extends keyof Tasks = keyof Tasks> {
  readonly kind: Kind;
  readonly request: Tasks[Kind]['request'];
}

/** The bytes of an archive: in shared memory, or in a file that is open for reading in this process. */
export type PackedBytes = Uint8Array<SharedArrayBuffer> | number;

/** Where the bytes of an archive's entry are, and what they must be. */
export interface PackedEntry {
  readonly dataOffset: number;
  readonly compressedBytes: number;
  readonly sizeBytes: number;
  readonly crc32: number;
  readonly isDeflated: boolean;
}

/** A published file of the same path and size. */
export interface KnownFile {
  /** Absolute path. */
  readonly place: string;
  /** SHA-256, in hexadecimal digits, of what it must hold. */
  readonly sha256: string;
  readonly mode: number;
  /** Whole milliseconds since the epoch. */
  readonly mtimeMs: number;
  /** Whether it may stay where it has the same bytes. */
  readonly mayStay: boolean;
}

/** A private file that holds the bytes of an entry, which were checked. */
export interface EarlyFile {
  /** Absolute path. */
  readonly place: string;
  /** In hexadecimal digits. */
  readonly sha256: string;
  /** Permission bits. */
  readonly mode: number;
}

/** An entry and the file that it is to become. Times in whole milliseconds since the epoch. */
export interface ExtractEntry {
  readonly packed: PackedEntry;
  /** The file that takes the place of the new one; null where the bytes are in the archive. */
  readonly early: EarlyFile | null;
  /** Absolute path of the file that is made, unless the known one is the same. */
  readonly destination: string;
  /** For a file with other bytes than the known one. */
  readonly mtimeMs: number;
  /** For a file with the bytes that the known one should have and has not. */
  readonly keptTimeMs: number;
  /** Null where no published file of this path can be the same. */
  readonly known: KnownFile | null;
}

/** A part of an archive. */
export interface ExtractRequest {
  readonly packed: PackedBytes;
  /** Whether large files are written past the page cache. */
  readonly isPastCache: boolean;
  readonly entries: readonly ExtractEntry[];
  readonly stop: StopFlag;
}

/** The end of an entry: the known file holds it, or a file was made. */
export type Extracted =
  | { readonly kind: 'kept' }
  | {
      readonly kind: 'written';
      readonly sha256: string;
      /** Permission bits. */
      readonly mode: number;
      /** Whether its bytes are those that the known file should have and has not. */
      readonly isRewritten: boolean;
    };

/** Gives files of one tree names in another one, by hard links. */
export interface LinkRequest {
  readonly from: string;
  readonly to: string;
  /** Paths below both. Folders are made. */
  readonly paths: readonly string[];
  /** The facts of each of these files as they should be; null where nobody asks. */
  readonly facts: FileFacts | null;
}

/** Facts of files, in columns: as objects it would take longer to hand them over than to compare them. */
export interface FileFacts {
  readonly sizesBytes: Float64Array;
  /** Permission bits. */
  readonly modes: Uint16Array;
  /** Whole milliseconds since the epoch. */
  readonly mtimesMs: Float64Array;
}

export interface LinkResult {
  /** The first path of which the facts are not as they should be; null for none. */
  readonly changed: string | null;
}

/** Looks at everything below a folder. */
export interface WalkRequest {
  readonly tree: string;
  readonly stop: StopFlag;
}

/** The findings of a walk. */
export interface Walked extends FileFacts {
  /** Why there is nothing to tell of the folder itself; null where it is one. */
  readonly root: { readonly kind: 'gone' } | { readonly kind: 'unreadable'; readonly problem: string } | null;
  /** Below the folder, with slashes. */
  readonly paths: readonly string[];
  /** Places in {@link WALKED_KINDS}. */
  readonly kinds: Uint8Array;
  /** Paths that could not be looked at, with the system's reason. */
  readonly problems: readonly { readonly path: string; readonly problem: string }[];
}

export const WALKED_KINDS = ['file', 'folder', 'link', 'special'] as const;
