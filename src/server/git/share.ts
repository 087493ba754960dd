/**
 * Makes one piece of work serve all who ask for it at about the same time, each of whom gets the outcome of work that began
 * no earlier than they asked. At most one is under way, and one waits for it.
 */
export function createShared<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null;
  let waiting: Promise<T> | null = null;

  function begin(): Promise<T> {
    const begun = work().finally(() => {
      running = null;
    });
    running = begun;
    return begun;
  }

  async function beginAfter(other: Promise<T>): Promise<T> {
    await other.catch(() => undefined);
    waiting = null;
    return begin();
  }

  return () => {
    if (waiting !== null) return waiting;
    if (running === null) return begin();
    waiting = beginAfter(running);
    return waiting;
  };
}
