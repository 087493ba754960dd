import type { MirrorEvent } from '../../app/events.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import { leasesInForce } from '../../mirror/store/leases.ts';

/** Interval of checks for released leases, in milliseconds: another process may release one at any time. */
const LOOK_EVERY_MS = 2000;

/**
 * Triggers the publishing that a lease delayed as soon as no lease is left, and not only at the next tick of the schedule. Leases that
 * cannot be read now are checked again.
 */
export function watchLeases(layout: DirectoryLayout, onOver: () => void) {
  let isWaiting = false;
  const look = async (): Promise<void> => {
    if (!isWaiting) return;
    const found = await leasesInForce(layout, Date.now()).catch(() => null);
    if (found?.length !== 0) return;
    isWaiting = false;
    onOver();
  };
  const timer = setInterval(() => void look(), LOOK_EVERY_MS).unref();
  return {
    sink: ({ name }: MirrorEvent): void => {
      if (name === 'lease.waited') isWaiting = true;
    },
    close: (): void => clearInterval(timer),
  };
}
