import type { EventSink } from '../../app/events.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { leasesInForce } from '../../mirror/store/leases.ts';

/** Another process may release a lease at any time: that is looked for so often, in milliseconds. */
const LOOK_EVERY_MS = 2000;

/** Waits for the end of leases that hold a pass back. */
export interface LeaseWatch {
  readonly sink: EventSink;
  readonly close: () => void;
}

/**
 * Has the states published that a lease held back as soon as no lease is left, rather than at the next tick of the schedule. Leases that
 * cannot be read now are looked for again.
 */
export function watchLeases(layout: DirectoryLayout, onOver: () => void): LeaseWatch {
  let isWaiting = false;
  let isLooking = false;
  let isClosed = false;
  const look = async (): Promise<void> => {
    if (!isWaiting || isLooking) return;
    isLooking = true;
    const isOver = await leasesInForce(layout, Date.now()).then(
      (found) => found.length === 0,
      () => false,
    );
    isLooking = false;
    // The watch may have been closed during the look: then nothing is to begin.
    if (!isOver || isClosed) return;
    isWaiting = false;
    onOver();
  };
  const timer = setInterval(() => void look(), LOOK_EVERY_MS).unref();
  return {
    sink: ({ name }) => {
      if (name === 'lease.waited') isWaiting = true;
    },
    close: () => {
      isClosed = true;
      clearInterval(timer);
    },
  };
}
