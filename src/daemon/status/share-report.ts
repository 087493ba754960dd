import { type ShareReport, writeShareReport } from '../../mirror/store/shards.ts';
import { hostname } from 'node:os';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { Shard } from '../../mirror/plan/selection.ts';
import { isLeftAlone, isWell, type TargetStatus } from '../../app/target-status.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { MirrorStatusReader } from './mirror-status.ts';

/**
 * Has an instance with a share tell all others how that stands, after a pass: in the directory and, where it is remote, in the state.
 * That it cannot be told fails nothing: it shows as silence.
 * @param readMirror reads the state of the mirror
 * @param failure why the pass failed as a whole; null where it did not
 */
export async function tellShare(
  readMirror: MirrorStatusReader['read'],
  { store, state }: Pick<Mirror, 'store' | 'state'>,
  failure: unknown,
): Promise<void> {
  const { shard } = store;
  if (shard === null) return;
  try {
    const { policy, nowMs, targets } = await readMirror(true);
    const report = reportOf(shard, targets, {
      directoryId: store.id,
      host: hostname(),
      writtenAtMs: nowMs,
      failure: failure === null ? null : eventFailure(failure).message,
      maxStalenessMs: policy.maxStalenessMs,
    });
    await writeShareReport(store, report);
    await state.saveShare(report);
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
  }
}

/** What is said of a share, by how its targets stand. */
function reportOf(
  shard: Shard,
  targets: readonly TargetStatus[],
  facts: Omit<ShareReport, keyof Shard | 'targets' | 'notWell' | 'oldestVerifiedAtMs'>,
): ShareReport {
  const own = targets.filter(({ state }) => !isLeftAlone(state));
  const times = own.map(({ verifiedAtMs }) => verifiedAtMs);
  const isKnown = times.length > 0 && !times.includes(null);
  return {
    ...shard,
    ...facts,
    targets: own.length,
    notWell: own.filter((target) => !isWell(target)).length,
    oldestVerifiedAtMs: isKnown
      ? times.reduce((oldest: number, timeMs) => Math.min(oldest, timeMs ?? 0), Number.POSITIVE_INFINITY)
      : null,
  };
}
