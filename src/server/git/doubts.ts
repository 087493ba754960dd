/** Which repositories are to be examined because something could not be read. */
export interface Doubts {
  /** Gives whether the repository is to be examined now; not where that was done a short while ago. */
  readonly add: (id: string) => boolean;
  /** Whether there is a doubt, which is at an end with that. */
  readonly take: (id: string) => boolean;
}

/** To examine a large repository takes minutes: it is done at most so often for each, in milliseconds. */
const INTERVAL_MS = 86_400_000;

/** Begins without doubts. @param nowMs a clock that never goes back, in milliseconds */
export function createDoubts(nowMs: () => number = () => performance.now()): Doubts {
  const open = new Set<string>();
  const examinedMs = new Map<string, number>();
  return {
    add(id) {
      const before = examinedMs.get(id);
      if (before !== undefined && nowMs() - before < INTERVAL_MS) return false;
      open.add(id);
      return true;
    },
    take(id) {
      const isOpen = open.delete(id);
      if (isOpen) examinedMs.set(id, nowMs());
      return isOpen;
    },
  };
}
