/** Runs a piece of work as soon as a place is free. */
export type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/**
 * Makes a limit on how many pieces of work are under way at once; the others wait in the order they came.
 * @param places how many run at once, at least 1
 */
export function createLimit(places: number): Limit {
  let free = places;
  const waiting: Array<() => void> = [];
  return async (work) => {
    if (free === 0) {
      // The place is handed over by the one that ends, so `free` is not touched here.
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      free -= 1;
    }
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/** Too many wait already. */
export class CrowdedError extends Error {
  override readonly name = 'CrowdedError';
}

/**
 * As {@link createLimit}, with a limit on how many wait, too.
 * @param places how many run at once, at least 1
 * @param seats how many wait at most
 * @returns what rejects with a CrowdedError when all of that is taken
 */
export function createLimitWithSeats(places: number, seats: number): Limit {
  const inTurn = createLimit(places);
  let count = 0;
  return async (work) => {
    if (count >= places + seats) throw new CrowdedError('too many are waiting');
    count += 1;
    try {
      return await inTurn(work);
    } finally {
      count -= 1;
    }
  };
}

/**
 * As {@link createLimit}, but work that takes long gives its place to the next one and goes on outside the count.
 * @param places how many run at once, at least 1
 * @param patienceMs for how long each has its place, in milliseconds
 */
export function createYieldingLimit(places: number, patienceMs: number): Limit {
  const inTurn = createLimit(places);
  return async <T>(work: () => Promise<T>) => {
    const running = await inTurn(async () => {
      const result = work();
      await firstOf(result, patienceMs);
      // Wrapped: a promise that is given back is waited for.
      return { result };
    });
    return running.result;
  };
}

/** Waits until work has ended, however it does, or some time has passed. */
async function firstOf(work: Promise<unknown>, patienceMs: number): Promise<void> {
  const ended = work.then(
    () => undefined,
    () => undefined,
  );
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  await Promise.race([ended, patience]);
  clearTimeout(timer);
}
