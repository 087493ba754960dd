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
  const newestFirst = kept.toSorted((a, b) => b.atMs - a.atMs);
  /** How many later ones of the same target and kind there are. */
  const newer = new Map<string, number>();
  const over = newestFirst.filter(({ path, kind, atMs }) => {
    const retention = policy[kind];
    if (retention.kind === 'off') return true;
    if (retention.kind === 'forever') return false;
    if (retention.kind === 'age') return nowMs - atMs > retention.ageMs;
    if (isAhead(clockMs, atMs)) return false;
    const key = `${kind} ${path}`;
    const count = newer.get(key) ?? 0;
    newer.set(key, count + 1);
    return count >= retention.count;
  });
  const isOver = new Set(over);
  const needsLater = new Set<string>();
  return newestFirst.toReversed().filter((each) => {
    if (!isOver.has(each)) needsLater.add(each.path);
    return !needsLater.has(each.path);
  });
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
