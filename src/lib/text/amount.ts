import { roughDuration, roughSize } from './humanize.ts';

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
