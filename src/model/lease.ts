/** A promise that nothing is published for a while, so that a reader such as a backup sees one state of the whole mirror. */
export interface Lease {
  readonly id: string;
  /** Who took it, for people. */
  readonly holder: string;
  /** Milliseconds since the epoch. */
  readonly takenAtMs: number;
  /** When it ends by itself, in milliseconds since the epoch. */
  readonly untilMs: number;
}

/** The longest time that a lease may last, in milliseconds: whatever becomes of its holder, publishing goes on after it. */
export const LONGEST_LEASE_MS = 24 * 60 * 60 * 1000;

/**
 * The leases that still hold. One that ends later than a lease can, or was taken in the future, was written under a clock that
 * was wrong, and holds nothing.
 */
export function leasesInForce(leases: readonly Lease[], nowMs: number): Lease[] {
  return leases.filter(
    ({ takenAtMs, untilMs }) =>
      untilMs > nowMs && takenAtMs <= nowMs && untilMs - takenAtMs <= LONGEST_LEASE_MS,
  );
}
