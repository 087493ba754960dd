import { roughDuration, roughSize } from './humanize.ts';

/**
 * What a pull is at: `comparing` the published tree with its manifest, `downloading`, `unpacking`, or `publishing`, which includes
 * flushing to disk and the command hooks.beforePublish.
 */
export const PULL_PHASES = ['comparing', 'downloading', 'unpacking', 'publishing'] as const;
export type PullPhase = (typeof PULL_PHASES)[number];

/** How far some work on bytes is. */
export interface Amount {
  readonly doneBytes: number;
  /** Null where nobody knows. */
  readonly totalBytes: number | null;
  /** Whether the total is only what it was the last time. */
  readonly isEstimate: boolean;
  /** Of the last seconds; null where too little was done to tell. */
  readonly bytesPerSecond: number | null;
}

/** A pull under way. The amount is that of its phase; publishing has none. */
export interface PullProgress extends Amount {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly phase: PullPhase;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** What came from the service so far, in all phases. */
  readonly downloadedBytes: number;
  /** Time that the phase still takes at this speed, in milliseconds; null where that cannot be told. */
  readonly leftMs: number | null;
}

/** How far a look at all published trees is, such as the one that a daemon begins with. */
export interface ScanProgress {
  readonly doneTargets: number;
  readonly targets: number;
}

/** The time that is left at the present speed, in milliseconds; null where that cannot be told. */
export function leftMs({ doneBytes, totalBytes, bytesPerSecond }: Amount): number | null {
  if (totalBytes === null || bytesPerSecond === null || bytesPerSecond <= 0) return null;
  return (1000 * Math.max(0, totalBytes - doneBytes)) / bytesPerSecond;
}

/** How far something is, as a clause: `512 MB of 2.1 GB, 41 MB/s, 38 s left`. */
export function describeAmount(amount: Amount): string {
  const { doneBytes, totalBytes, isEstimate, bytesPerSecond } = amount;
  const left = leftMs(amount);
  const isBeyond = totalBytes !== null && doneBytes > totalBytes;
  const total =
    totalBytes === null || isBeyond ? '' : ` of ${isEstimate ? 'about ' : ''}${roughSize(totalBytes)}`;
  return [
    `${roughSize(doneBytes)}${total}`,
    ...(bytesPerSecond === null ? [] : [`${roughSize(bytesPerSecond)}/s`]),
    ...(left === null || isBeyond ? [] : [`${roughDuration(left)} left`]),
  ].join(', ');
}

/** What a pull is at, as a clause without its target. */
export function describePhase(pull: PullProgress): string {
  return pull.doneBytes === 0 && pull.totalBytes === null
    ? pull.phase
    : `${pull.phase} ${describeAmount(pull)}`;
}
