/** A queued pull, as far as its turn depends on it. */
export interface Waiting {
  /** Pulls of one repository take turns with those of the others. */
  readonly repositoryId: string;
  /** Since when its target waits, in milliseconds since the epoch; 0 for always. */
  readonly waitingSinceMs: number;
  /** About how much will be downloaded, in bytes; null where nobody knows. */
  readonly sizeBytes: number | null;
}

/** How many pulls may go on at once. */
export interface Slots {
  /** Prompt ones: those that have not taken long yet. */
  readonly prompt: number;
  /** All of them, slow ones too. */
  readonly all: number;
  /** Once so many go on, a further one is begun only for a repository of which none goes on. */
  readonly shared: number;
}

export interface RunningPulls {
  readonly prompt: number;
  readonly all: number;
  readonly isOf: (repositoryId: string) => boolean;
}

/** How many times as many pulls go on as there are slots for prompt ones, slow ones included. */
const TIMES_WITH_SLOW = 4;

/** How many of these times one repository alone can take. */
const TIMES_SHARED = 3;

/** The slots that follow from the setting `concurrency`, which counts the prompt pulls. */
export function slotsFor(concurrency: number): Slots {
  return { prompt: concurrency, all: concurrency * TIMES_WITH_SLOW, shared: concurrency * TIMES_SHARED };
}

/** Whether one more pull may go on, if it is one of the right repository. */
function isPlaceFree(running: RunningPulls, slots: Slots): boolean {
  return running.prompt < slots.prompt && running.all < slots.all;
}

/** Whether a pull of a repository may be begun: the last slots are kept for repositories that have none. */
export function mayBegin(repositoryId: string, running: RunningPulls, slots: Slots): boolean {
  if (!isPlaceFree(running, slots)) return false;
  return running.all < slots.shared || !running.isOf(repositoryId);
}

/**
 * Pulls in the order in which they are to be begun: first one of every repository, then a second one, and so on, so that none
 * keeps the others waiting by how many branches it has. In each round who waits longest comes first, and of those that wait as
 * long what is known to be small.
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
  if (waiting !== 0) return waiting;
  return sortableSize(one) - sortableSize(other);
}

function sortableSize({ sizeBytes }: Waiting): number {
  return sizeBytes ?? Number.MAX_SAFE_INTEGER;
}

/** Pulls that wait for slots. */
export interface FairQueue<Item extends Waiting> {
  /** Takes out the next one that may be begun; null when none may. */
  readonly take: (running: RunningPulls, slots: Slots) => Item | null;
  /** Whether none waits. */
  readonly isEmpty: () => boolean;
  /** Those that wait: what comes next is not always the first of them. */
  readonly waiting: () => readonly Item[];
}

/** Makes pulls wait for their turns. One that is passed over, as its repository has its share, comes first when that is over. */
export function createFairQueue<Item extends Waiting>(items: readonly Item[]): FairQueue<Item> {
  const ahead = createQueue(inFairOrder(items));
  const passedOver = new Map<string, Queue<Item>>();
  const takePassedOver = (may: (repositoryId: string) => boolean): Item | null => {
    for (const [repositoryId, queue] of passedOver) {
      const item = may(repositoryId) ? queue.take() : undefined;
      if (queue.isEmpty()) passedOver.delete(repositoryId);
      if (item !== undefined) return item;
    }
    return null;
  };
  const passOver = (item: Item): void => {
    const queue = passedOver.get(item.repositoryId);
    if (queue === undefined) passedOver.set(item.repositoryId, createQueue([item]));
    else queue.add(item);
  };
  return {
    take: (running, slots) => {
      if (!isPlaceFree(running, slots)) return null;
      const may = (repositoryId: string): boolean => mayBegin(repositoryId, running, slots);
      const first = takePassedOver(may);
      if (first !== null) return first;
      for (let item = ahead.take(); item !== undefined; item = ahead.take()) {
        if (may(item.repositoryId)) return item;
        passOver(item);
      }
      return null;
    },
    isEmpty: () => ahead.isEmpty() && passedOver.size === 0,
    waiting: () => [...ahead.left(), ...[...passedOver.values()].flatMap((queue) => queue.left())],
  };
}

/** First in, first out. */
interface Queue<Item> {
  readonly add: (item: Item) => void;
  readonly take: () => Item | undefined;
  readonly isEmpty: () => boolean;
  readonly left: () => readonly Item[];
}

/** A queue from which taking costs as little, however long it is. */
function createQueue<Item>(items: Item[]): Queue<Item> {
  let next = 0;
  return {
    add: (item) => items.push(item),
    take: () => {
      const item = items[next];
      if (item !== undefined) next += 1;
      return item;
    },
    isEmpty: () => next === items.length,
    left: () => items.slice(next),
  };
}
