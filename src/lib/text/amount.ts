import { roughDuration, roughSize } from './humanize.ts';

/** The progress of some work on bytes. */
export interface Amount {
  readonly doneBytes: number;
  /** Null if unknown. */
  readonly totalBytes: number | null;
  /** Whether the total is only the last known one. */
  readonly isEstimate: boolean;
  /** The speed of the last seconds; null if too little was done to tell. */
  readonly bytesPerSecond: number | null;
}

/** The remaining time at the present speed, in milliseconds; null if unknown. */
export function leftMs({ doneBytes, totalBytes, bytesPerSecond }: Amount): number | null {
  if (totalBytes === null || bytesPerSecond === null || bytesPerSecond <= 0) return null;
  return (1000 * Math.max(0, totalBytes - doneBytes)) / bytesPerSecond;
}

/** Progress as a clause: `512 MB of 2.1 GB, 41 MB/s, 38 s left`. */
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
