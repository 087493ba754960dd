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
