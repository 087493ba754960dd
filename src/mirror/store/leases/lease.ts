import { CLOCK_STEP_MS } from '../../../lib/time/wrong-clock.ts';
import { MirrorError } from '../../../lib/errors/errors.ts';
import { utcTime } from '../../../lib/text/humanize.ts';
import { ownCommand } from '../../../lib/text/own-command.ts';

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
 * was wrong, and holds nothing; a clock that was set back by a little ends none.
 */
export function leasesInForce(leases: readonly Lease[], nowMs: number): Lease[] {
  return leases.filter(
    ({ takenAtMs, untilMs }) =>
      untilMs > nowMs && takenAtMs <= nowMs + CLOCK_STEP_MS && untilMs - takenAtMs <= LONGEST_LEASE_MS,
  );
}

/** The one of some leases that ends last: publishing waits for it. Null when there are none. */
export function lastLease(leases: readonly Lease[]): Lease | null {
  return leases.reduce<Lease | null>(
    (last, lease) => (last === null || lease.untilMs > last.untilMs ? lease : last),
    null,
  );
}

/** A publish waits for a lease. */
export class LeasedError extends MirrorError {
  /** The lease that ends last. */
  readonly lease: Lease;

  constructor(lease: Lease) {
    super('publish.leased', `Nothing was published: ${leaseSentence(lease)}.`, {
      hint: `Try again when it has ended; \`${ownCommand('lease list')}\` shows all of them, \`lease release\` ends one at once.`,
    });
    this.lease = lease;
  }
}

/** A clause that says for which lease publishing waits. */
export function leaseSentence({ id, holder, untilMs }: Lease): string {
  return `publishing waits for the lease of ${holder} (${id}), at most until ${utcTime(untilMs)}`;
}
