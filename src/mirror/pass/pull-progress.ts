import type { Amount } from '../../lib/text/amount.ts';

/**
 * The phases of a pull: `comparing` the published tree with its manifest, `downloading`, `unpacking`, and `publishing`, which
 * includes flushing to disk and the command hooks.beforePublish.
 */
export const PULL_PHASES = ['comparing', 'downloading', 'unpacking', 'publishing'] as const;
export type PullPhase = (typeof PULL_PHASES)[number];

/** A pull under way. The amount is that of its phase; publishing has none. */
export interface PullProgress extends Amount {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly phase: PullPhase;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Bytes that came from the service so far, in all phases. */
  readonly downloadedBytes: number;
  /** Time that the phase still takes at this speed, in milliseconds; null where that cannot be told. */
  readonly leftMs: number | null;
}

/** How far a look at all published trees is, such as the one that a daemon begins with. */
export interface ScanProgress {
  readonly doneTargets: number;
  readonly targets: number;
}
