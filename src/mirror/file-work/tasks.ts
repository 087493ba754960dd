import type { FeedRequest, OpenRequest } from '../archive/arrivals.ts';
import type { FinishedArchive } from '../archive/unpack.ts';
import type { StopFlag } from './failures.ts';
import type { PlaceRequest } from './place.ts';

/**
 * Work on many files at a time. It is done in threads of its own by synchronous calls, which cost a fraction of asynchronous
 * ones where a file takes microseconds, and leave the main thread free where a disk hangs.
 */
export interface Tasks {
  readonly 'open-archive': { readonly request: OpenRequest; readonly result: void };
  readonly 'feed-archive': { readonly request: FeedRequest; readonly result: void };
  readonly 'finish-archive': { readonly request: { readonly id: number }; readonly result: FinishedArchive };
  readonly 'abandon-archive': { readonly request: { readonly id: number }; readonly result: void };
  readonly place: { readonly request: PlaceRequest; readonly result: void };
  readonly link: { readonly request: LinkRequest; readonly result: LinkResult };
  readonly walk: { readonly request: WalkRequest; readonly result: Walked };
}

/** A task on its way to a thread. */
export interface Question<Kind extends keyof Tasks = keyof Tasks> {
  readonly number: number;
  readonly kind: Kind;
  readonly request: Tasks[Kind]['request'];
}

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
