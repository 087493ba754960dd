import type { EventSink } from '../../app/events.ts';
import type { Lease } from '../../mirror/store/leases/lease.ts';

/** Another process may release a lease or ask for a retry at any time: both are looked for so often, in milliseconds. */
const LOOK_EVERY_MS = 2000;

/** A program may wait for a pass that it asks for: that is looked for so often, in milliseconds. */
const LOOK_FOR_POLLS_EVERY_MS = 500;

/** Waits for something that other processes write into the directory. */
export interface RequestWatch {
  readonly close: () => void;
}

/**
 * Has what a lease held back published as soon as no lease is left, rather than at the next tick of the schedule.
 * @param leases those in force
 */
export function watchLeases(
  leases: () => Promise<readonly Lease[]>,
  onOver: () => void,
): RequestWatch & { readonly sink: EventSink } {
  let isWaiting = false;
  const look = async (): Promise<boolean> => isWaiting && (await leases()).length === 0;
  const { close } = lookOnAndOn(look, () => {
    isWaiting = false;
    onOver();
  });
  return {
    sink: ({ name }) => {
      if (name === 'lease.waited') isWaiting = true;
    },
    close,
  };
}

/**
 * Has targets tried at once when a person asks for it, rather than at the next tick of the schedule. A request that a pass could
 * not carry out waits for the next one, and is reported once.
 * @param retries the targets that are asked for
 */
export function watchRetries(
  retries: () => Promise<ReadonlySet<string>>,
  onRequest: () => void,
): RequestWatch {
  let known: ReadonlySet<string> = new Set();
  return lookOnAndOn(async () => {
    const found = await retries();
    const isNew = [...found].some((target) => !known.has(target));
    known = found;
    return isNew;
  }, onRequest);
}

/**
 * Tells of requests for a pass.
 * @param take takes those that stand
 */
export function watchPolls(
  take: () => Promise<{ readonly hasNew: boolean }>,
  onRequest: () => void,
): RequestWatch {
  return lookOnAndOn(async () => (await take()).hasNew, onRequest, LOOK_FOR_POLLS_EVERY_MS);
}

/** Looks again and again, one look at a time. What cannot be read now is looked for again. */
function lookOnAndOn(
  look: () => Promise<boolean>,
  onFound: () => void,
  everyMs = LOOK_EVERY_MS,
): RequestWatch {
  let isLooking = false;
  let isClosed = false;
  const lookOnce = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    const isFound = await look().catch(() => false);
    isLooking = false;
    // A look that is going on at the end tells of nothing any more.
    if (isFound && !isClosed) onFound();
  };
  const timer = setInterval(() => void lookOnce(), everyMs).unref();
  return {
    close: () => {
      isClosed = true;
      clearInterval(timer);
    },
  };
}
