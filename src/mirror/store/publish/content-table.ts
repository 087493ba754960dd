/** Places that are remembered of one content: of more, any of these will do. */
const MOST_PLACES = 4;

const LEAST_SLOTS = 1024;
const FULLEST = 0.6;
const FREE = -1;

/**
 * Remembers in which trees a content may be found, by its size and CRC-32, in 12 bytes a slot: a mirror may hold millions of
 * files. It only ever proposes: a slot may speak of a tree that has changed since.
 */
export class ContentTable {
  private keys = new Float64Array(LEAST_SLOTS).fill(FREE);
  private trees = new Uint32Array(LEAST_SLOTS);
  private used = 0;

  /** Contents that are remembered, each with its trees. */
  get size(): number {
    return this.used;
  }

  /** Remembers that a tree, known by a number, holds a content. */
  add(sizeBytes: number, crc32: number, tree: number): void {
    if (this.used >= this.keys.length * FULLEST) this.grow();
    this.insert(keyOf(sizeBytes, crc32), tree);
  }

  /** The trees that may hold a content, the first one that was added first. */
  find(sizeBytes: number, crc32: number): number[] {
    const key = keyOf(sizeBytes, crc32);
    const found: number[] = [];
    for (let slot = this.slotOf(key); this.keys[slot] !== FREE; slot = this.next(slot)) {
      if (this.keys[slot] === key) found.push(this.trees[slot] ?? 0);
    }
    return found;
  }

  private insert(key: number, tree: number): void {
    let places = 0;
    let slot = this.slotOf(key);
    for (; this.keys[slot] !== FREE; slot = this.next(slot)) {
      if (this.keys[slot] !== key) continue;
      places += 1;
      if (places === MOST_PLACES || this.trees[slot] === tree) return;
    }
    this.keys[slot] = key;
    this.trees[slot] = tree;
    this.used += 1;
  }

  private grow(): void {
    const { keys, trees } = this;
    this.keys = new Float64Array(keys.length * 2).fill(FREE);
    this.trees = new Uint32Array(keys.length * 2);
    this.used = 0;
    keys.forEach((key, slot) => {
      if (key !== FREE) this.insert(key, trees[slot] ?? 0);
    });
  }

  private slotOf(key: number): number {
    // The lower half of a key is a checksum, which spreads evenly by itself.
    return (key % 2 ** 32) % this.keys.length;
  }

  private next(slot: number): number {
    return slot + 1 === this.keys.length ? 0 : slot + 1;
  }
}

/** One number for both, within the 53 bits that are exact. */
function keyOf(sizeBytes: number, crc32: number): number {
  return (sizeBytes % 2 ** 20) * 2 ** 32 + crc32;
}
