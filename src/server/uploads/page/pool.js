/** Work on many things, some at a time. */

/**
 * Works on every item, at most `limit` at once. The first failure stops all: nothing new is begun, and the signal stops
 * work that is under way.
 * @template Item
 * @param {readonly Item[]} items
 * @param {{ limit: number, signal: AbortSignal }} options
 * @param {(item: Item, signal: AbortSignal) => Promise<void>} work
 * @throws {unknown} the first failure, after everything under way has ended
 */
export async function someAtOnce(items, { limit, signal }, work) {
  const inner = new AbortController();
  const all = AbortSignal.any([signal, inner.signal]);
  const left = items.values();
  /** @type {{ error: unknown }[]} */
  const failures = [];
  const worker = async () => {
    for (const item of left) {
      try {
        await work(item, all);
      } catch (error) {
        failures.push({ error });
        inner.abort();
      }
      if (all.aborted) return;
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  const [first] = failures;
  if (first !== undefined) throw first.error;
}
