/** Items that are handed to a thread together: handing them over one by one would take longer than most of them. */
const MOST_ITEMS = 64;

/** Bytes at which a batch is full, so that threads share the work evenly. */
const FULL_BYTES = 4 * 1024 * 1024;

/** A run of items, and where it starts. */
export interface Batch<T> {
  readonly start: number;
  readonly items: readonly T[];
}

/** Cuts items into batches, in their order; one alone may be greater than a batch should be. */
export function* batchesOf<T>(items: readonly T[], bytesOf: (item: T) => number): Generator<Batch<T>> {
  let start = 0;
  let bytes = 0;
  for (const [index, item] of items.entries()) {
    const itemBytes = bytesOf(item);
    const isFull = index - start === MOST_ITEMS || bytes + itemBytes > FULL_BYTES;
    if (isFull && index > start) {
      yield { start, items: items.slice(start, index) };
      start = index;
      bytes = 0;
    }
    bytes += itemBytes;
  }
  if (start < items.length) yield { start, items: items.slice(start) };
}
