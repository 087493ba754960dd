/** A pull that waits, as far as its turn depends on it. */
export interface Waiting {
  /** Pulls of one repository take turns with those of the others. */
  readonly repositoryId: string;
  /** Since when its target waits, in milliseconds since the epoch; 0 for always. */
  readonly waitingSinceMs: number;
  /** About how much will be downloaded, in bytes; null where that is not known. */
  readonly sizeBytes: number | null;
}

/**
 * Pulls in the order in which they are to begin: first one of every repository, then a second one, and so on, so that a repository with
 * many branches does not keep the others waiting. In each round the one that waits longest comes first, and of those that wait as
 * long the one that is known to be small.
 */
export function inFairOrder<Item extends Waiting>(items: readonly Item[]): Item[] {
  const rounds: Item[][] = [];
  const taken = new Map<string, number>();
  for (const item of items.toSorted(byNeed)) {
    const round = taken.get(item.repositoryId) ?? 0;
    taken.set(item.repositoryId, round + 1);
    (rounds[round] ??= []).push(item);
  }
  return rounds.flat();
}

function byNeed(one: Waiting, other: Waiting): number {
  const waiting = one.waitingSinceMs - other.waitingSinceMs;
  return waiting === 0 ? sortableSize(one) - sortableSize(other) : waiting;
}

function sortableSize({ sizeBytes }: Waiting): number {
  return sizeBytes ?? Number.MAX_SAFE_INTEGER;
}
