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
  let isClosed = false;
  const mayEnd = (): boolean => isWaiting && !isClosed;
  const look = async (): Promise<void> => {
    if (!mayEnd()) return;
    const found = await leasesInForce(layout, Date.now()).catch(() => null);
    // Another look may have come first, or the watch was closed during this one.
    if (found?.length !== 0 || !mayEnd()) return;
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
