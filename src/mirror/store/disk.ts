import type { DirectoryLock } from '../../lib/disk/lock.ts';
import type { SharedFlush } from '../../lib/disk/shared-flush.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import type { Shard } from '../plan/selection.ts';
import type { Inventory } from './inventory.ts';
import type { DirectoryLayout, HistoryKind } from './layout.ts';
import type { PublishGate } from './leases.ts';
import type { PublishMode } from './publish/moves.ts';

/** How much of a target's history is kept. */
export type Retention =
  | { readonly kind: 'off' }
  | { readonly kind: 'forever' }
  /** This many of the latest. */
  | { readonly kind: 'count'; readonly count: number }
  /** Nothing older; milliseconds. */
  | { readonly kind: 'age'; readonly ageMs: number };

export type RetentionPolicy = Readonly<Record<HistoryKind, Retention>>;

/** The mirror directory, as seen by the process that locked it. Functions that change published trees take it. */
export interface Disk {
  readonly layout: DirectoryLayout;
  readonly native: NativeCalls;
  /** Its `check` confirms that the directory still is the one that was locked. */
  readonly lock: DirectoryLock;
  readonly mode: PublishMode;
  /** Whether the file system exchanges two names in one step. */
  readonly canExchange: boolean;
  /** File times are stored in multiples of this, in milliseconds. */
  readonly timeStepMs: number;
  /** The limits of the file system, and their effects: each is the rest of a sentence that begins "the file system of X". */
  readonly limits: readonly string[];
  /** Flushes the file system of the directory. */
  readonly flush: SharedFlush;
  /** How long a replaced tree stays whole, in milliseconds. */
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Called after bytes were read or written, or a link was made. */
  readonly onProgress: () => void;
  /** Every change that readers may notice goes through it. */
  readonly gate: PublishGate;
  /** Runs work that makes or removes folders shared by several targets, one at a time. */
  readonly serially: <T>(work: () => Promise<T>) => Promise<T>;
  /** Targets whose last publish could not be completed, with the reasons. */
  readonly unfinished: Map<string, unknown>;
  /** The names of the stages in use, which recovery leaves alone. */
  readonly inUse: Set<string>;
  /** The targets of linked trees, by the names of the trees. */
  readonly linked: Map<string, string>;
  /** When unlinked trees were last searched for; null for not yet. Milliseconds since the epoch. */
  readonly searched: { atMs: number | null };
}

/** The mirror directory, locked by this process and writable, with its targets. */
export interface MirrorStore extends Disk {
  /** The share of this instance; null if it has all. */
  readonly shard: Shard | null;
  /** Identifies this directory in stores that several directories share. */
  readonly id: string;
  /** Whether the id is new and not on disk yet: the directory is empty, a copy, or restored from a backup. */
  readonly isNew: boolean;
  /** Finds the published trees. */
  readonly inventory: Inventory;
  /** The targets whose publish was interrupted by a crash and completed at opening. */
  readonly recovered: readonly string[];
}
