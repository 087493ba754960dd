/** Files that could not be checked, each until its time comes. */
export interface Postponed {
  /** Whether a file still waits. */
  readonly has: (contentKey: string) => boolean;
  /** Has a file wait, each time twice as long. */
  readonly add: (contentKey: string) => void;
  /** Forgets a file. */
  readonly delete: (contentKey: string) => void;
  readonly close: () => void;
}

/** A file waits no longer than so many times the first time. */
const MOST_TIMES = 16;

interface Wait {
  readonly times: number;
  /** By the clock of `performance`; null where it waits no longer. */
  readonly untilMs: number | null;
}

/**
 * Makes the list, with nothing on it.
 * @param firstMs how long a file waits the first time, in milliseconds
 * @param onDue is told when files wait no longer, once for many of them
 */
export function createPostponed(firstMs: number, onDue: () => void): Postponed {
  const waits = new Map<string, Wait>();
  let timer: NodeJS.Timeout | undefined;

  function end(): void {
    timer = undefined;
    const nowMs = performance.now();
    for (const [contentKey, { times, untilMs }] of waits)
      if (untilMs !== null && untilMs <= nowMs) waits.set(contentKey, { times, untilMs: null });
    if ([...waits.values()].some(({ untilMs }) => untilMs !== null)) start();
    onDue();
  }

  function start(): void {
    timer ??= setTimeout(end, firstMs).unref();
  }

  return {
    has: (contentKey) => typeof waits.get(contentKey)?.untilMs === 'number',
    add(contentKey) {
      const times = Math.min(2 * (waits.get(contentKey)?.times ?? 0.5), MOST_TIMES);
      waits.set(contentKey, { times, untilMs: performance.now() + times * firstMs });
      start();
    },
    delete: (contentKey) => waits.delete(contentKey),
    close() {
      clearTimeout(timer);
    },
  };
}
