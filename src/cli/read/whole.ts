import { CLOCK_STEP_MS, isAhead, latestFirst } from '../../lib/time/wrong-clock.ts';
import type { ShareReport } from '../../mirror/store/shards.ts';

/** How a share stands. `silent`: nobody has worked for it for too long. */
export type ShareState = 'well' | 'not-well' | 'silent' | 'missing';

/** A share of the whole. */
export interface ShareStatus {
  readonly index: number;
  readonly state: ShareState;
  /** Null where nobody ever worked for it. */
  readonly report: ShareReport | null;
}

/** How all shares stand together. */
export interface WholeStatus {
  /** How many share the work, by the report that was written last; 0 where there is none. */
  readonly count: number;
  readonly shares: readonly ShareStatus[];
  /** Recent reports by instances with another count: from before the count was changed, or of an instance that was forgotten. */
  readonly disagreeing: readonly ShareReport[];
  /** Whether every share is well, and all agree on the count: never better than the worst share. */
  readonly isWell: boolean;
}

/**
 * Judges how all shares stand. Of several reports for one share the one that was written last counts.
 * @param nowMs milliseconds since the epoch
 */
export function judgeWhole(reports: readonly ShareReport[], nowMs: number): WholeStatus {
  const byTime = latestFirst(nowMs + CLOCK_STEP_MS);
  const sorted = [...reports].sort((a, b) => byTime(a.writtenAtMs, b.writtenAtMs));
  const count = sorted[0]?.count ?? 0;
  const shares = Array.from({ length: count }, (_, at): ShareStatus => {
    const report = sorted.find((each) => each.index === at + 1 && each.count === count) ?? null;
    return { index: at + 1, state: report === null ? 'missing' : stateOf(report, nowMs), report };
  });
  const disagreeing = sorted.filter((each) => each.count !== count && !isSilent(each, nowMs));
  const isWell = count > 0 && disagreeing.length === 0 && shares.every(({ state }) => state === 'well');
  return { count, shares, disagreeing, isWell };
}

function stateOf(report: ShareReport, nowMs: number): ShareState {
  if (isSilent(report, nowMs)) return 'silent';
  return report.failure === null && report.notWell === 0 ? 'well' : 'not-well';
}

/** Whether an instance said nothing for longer than its targets may be unverified, as far as its clock can be believed. */
function isSilent({ writtenAtMs, maxStalenessMs }: ShareReport, nowMs: number): boolean {
  return isAhead(nowMs + CLOCK_STEP_MS, writtenAtMs) || nowMs - writtenAtMs > maxStalenessMs;
}
