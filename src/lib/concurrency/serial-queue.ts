/** Pieces of work that are done one after the other. */
export interface SerialQueue {
  /** Does a piece of work after all before it, even if those failed; resolves or rejects as the work does. */
  readonly run: <Value>(work: () => Promise<Value>) => Promise<Value>;
  /** Waits for all that was given to it so far; never rejects. */
  readonly done: () => Promise<void>;
}

/** Makes an empty queue. */
export function createSerialQueue(): SerialQueue {
  // What came of the work is not kept: it may be much.
  let last = Promise.resolve();
  return {
    run: (work) => {
      const result = last.then(work);
      last = settled(result);
      return result;
    },
    done: () => last,
  };
}

async function settled(work: Promise<unknown>): Promise<void> {
  await Promise.allSettled([work]);
}
