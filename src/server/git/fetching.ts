import type { Registry } from './registry.ts';

/** The steady comparison of all external repositories with where they come from. */
export interface Fetching {
  readonly close: () => void;
}

/** Node's timers take no longer wait (2^31 - 1 ms), and this is soon enough to find out about new repositories. */
const LONGEST_WAIT_MS = 60_000;

/**
 * Decides which repository is next, and when the one after it: each has its turn once in an interval, and no two at once.
 * @param ids the external repositories in the order they were created
 * @param previous the one whose turn was last; null at the beginning
 */
export function nextTurn(
  ids: readonly string[],
  previous: string | null,
  intervalMs: number,
): { readonly id: string | null; readonly waitMs: number } {
  const at = previous === null ? 0 : ids.indexOf(previous) + 1;
  return { id: ids[at] ?? ids[0] ?? null, waitMs: intervalMs / Math.max(1, ids.length) };
}

/**
 * Starts to compare. All are compared at once first, for what happened while nobody looked; then they take turns.
 * @param intervalMs how often each is compared, in milliseconds
 */
export function createFetching(
  registry: Pick<Registry, 'list' | 'fetchWhenDue'>,
  { intervalMs }: { readonly intervalMs: number },
): Fetching {
  const external = (): string[] => registry.list().flatMap(({ id, source }) => (source === null ? [] : [id]));
  let previous: string | null = null;
  let lastTurnMs = performance.now();
  let timer: NodeJS.Timeout;

  function look(): void {
    const { id, waitMs } = nextTurn(external(), previous, intervalMs);
    const leftMs = lastTurnMs + waitMs - performance.now();
    if (leftMs <= 0) {
      lastTurnMs = performance.now();
      previous = id;
      if (id !== null) registry.fetchWhenDue(id);
    }
    timer = setTimeout(look, Math.min(LONGEST_WAIT_MS, leftMs <= 0 ? waitMs : leftMs));
  }

  for (const id of external()) registry.fetchWhenDue(id);
  look();
  return { close: () => clearTimeout(timer) };
}
