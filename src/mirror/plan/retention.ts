import { isAhead } from '../../lib/time/wrong-clock.ts';

/** How much of a target's history is kept. */
export type Retention =
  | { readonly kind: 'off' }
  | { readonly kind: 'forever' }
  /** So many of the latest. */
  | { readonly kind: 'count'; readonly count: number }
  /** Nothing older; milliseconds. */
  | { readonly kind: 'age'; readonly ageMs: number };

/** Why a tree is in the history: its target is gone from the service, or a newer state took its place. */
export type HistoryKind = 'retired' | 'replaced';

export type RetentionPolicy = Readonly<Record<HistoryKind, Retention>>;

/** A tree in the history, as far as pruning looks at it. */
export interface Kept {
  /** The target, as below `mirror/`. */
  readonly path: string;
  readonly kind: HistoryKind;
  /** When it left the mirror, in milliseconds since the epoch. */
  readonly atMs: number;
}

/**
 * Those of some states that are kept no longer, the oldest of each target first. A state needs the later ones of its target, as its
 * unchanged files are kept there: so it stays for as long as an older one does. One that left in the future, by its name, is kept and
 * counts as none: it is not known before or after which of the others it left.
 * @param clockMs this machine's time, by which states are named, in milliseconds since the epoch
 * @param nowMs milliseconds since the epoch; of two clocks that disagree the earlier one, as a wrong one must not prune
 */
export function prunable<T extends Kept>(
  kept: readonly T[],
  policy: RetentionPolicy,
  nowMs: number,
  clockMs = nowMs,
): T[] {
  const isOver = overIn(kept, policy, nowMs, clockMs);
  const blocked = new Set<string>();
  return kept
    .toSorted((a, b) => a.atMs - b.atMs)
    .filter((each) => {
      if (!isOver.has(each)) blocked.add(each.path);
      return !blocked.has(each.path);
    });
}

/** The states that the retention of their kind keeps no longer. */
function overIn<T extends Kept>(
  kept: readonly T[],
  policy: RetentionPolicy,
  nowMs: number,
  clockMs: number,
): ReadonlySet<T> {
  const seen = new Map<string, number>();
  const over = kept
    .toSorted((a, b) => b.atMs - a.atMs)
    .filter(({ path, kind, atMs }) => {
      const retention = policy[kind];
      if (retention.kind === 'count' && isAhead(clockMs, atMs)) return false;
      const key = `${kind} ${path}`;
      const newer = seen.get(key) ?? 0;
      seen.set(key, newer + 1);
      switch (retention.kind) {
        case 'off':
          return true;
        case 'forever':
          return false;
        case 'count':
          return newer >= retention.count;
        case 'age':
          return nowMs - atMs > retention.ageMs;
      }
    });
  return new Set(over);
}

/**
 * The tree that stood in the mirror at a time: the first that left it at or after that time. One that left in the future, by its name,
 * is found by just that time.
 * @param kept the trees of one target
 * @param nowMs milliseconds since the epoch
 */
export function keptAt<T extends Kept>(kept: readonly T[], timeMs: number, nowMs: number): T | null {
  const later = kept.filter(({ atMs }) => atMs === timeMs || (atMs >= timeMs && !isAhead(nowMs, atMs)));
  return later.sort((a, b) => a.atMs - b.atMs)[0] ?? null;
}
