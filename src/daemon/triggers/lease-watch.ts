import type { EventSink } from '../../mirror/pass/events.ts';
import type { Lease } from '../../mirror/store/leases/lease.ts';

/** Waits for leases to end that a pass has met. */
export interface LeaseWatch {
  readonly sink: EventSink;
  readonly close: () => void;
}

/** A lease may be released at any time by another process: it is looked for so often, in milliseconds. */
const LOOK_EVERY_MS = 2000;

/**
 * Has what a lease held back published as soon as no lease is left, rather than at the next tick of the schedule.
 * @param leases those in force
 */
export function watchLeases(leases: () => Promise<readonly Lease[]>, onOver: () => void): LeaseWatch {
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  const look = async (): Promise<void> => {
    const isOver = await leases().then(
      (held) => held.length === 0,
      () => false,
    );
    if (!isOver || timer === undefined) return;
    clearInterval(timer);
    timer = undefined;
    onOver();
  };
  return {
    sink: ({ name }) => {
      if (name === 'lease.waited' && !isClosed) timer ??= setInterval(() => void look(), LOOK_EVERY_MS);
    },
    close: () => {
      clearInterval(timer);
      // A look that is going on tells of nothing any more.
      timer = undefined;
      isClosed = true;
    },
  };
}
