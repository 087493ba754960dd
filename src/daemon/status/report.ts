import type { EventLevel, EventName } from '../../app/events.ts';
import type { Liveness, Readiness } from './readiness.ts';
import type { Lease } from '../../mirror/store/leases.ts';
import type { Live } from './live.ts';
import type { Shard } from '../../mirror/plan/selection.ts';
import type { PullProgress, ScanProgress } from '../../mirror/pass/events.ts';
import type { TargetStatus } from '../../app/target-status.ts';

/** A warning or an error of the log, kept for who looks at the daemon later. */
export interface Notice {
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  readonly level: EventLevel;
  readonly event: EventName;
  readonly message: string;
}

/** Everything that the running daemon says of itself: the answer of `/api/status`. Times in milliseconds since the epoch. */
export interface DaemonReport {
  readonly version: string;
  /** The address of the service. */
  readonly service: string;
  readonly directory: string;
  /** The share of this instance: the second of five, say; null where it mirrors all repositories. */
  readonly shard: Shard | null;
  readonly schedule: string;
  readonly timezone: string;
  readonly nowMs: number;
  /** Older than this since last verified is stale, in milliseconds. */
  readonly maxStalenessMs: number;
  /** Whether directories can be swapped in one step here. */
  readonly canExchange: boolean;
  /** Whether readers see whole trees alone; where not, publishing goes file by file. */
  readonly publishesWhole: boolean;
  readonly readiness: Readiness;
  readonly liveness: Liveness;
  readonly live: Live;
  /** The pulls under way, the one that has taken longest first. */
  readonly pulls: readonly PullProgress[];
  /** How far the look at all trees is with which the daemon begins; null while there is none. */
  readonly scan: ScanProgress | null;
  /** The leases that publishing waits for. */
  readonly leases: readonly Lease[];
  /** Room on the file system of the directory, without what is kept for root; null where it cannot be told. */
  readonly disk: { readonly sizeBytes: number; readonly freeBytes: number } | null;
  /** By target, in order. */
  readonly targets: readonly TargetStatus[];
  /** The latest last. */
  readonly notices: readonly Notice[];
}
