import { type TargetStatus, whyNotWell } from '../../app/target-status.ts';
import type { Liveness, Readiness } from './status-schema.ts';

/**
 * Judges the whole mirror, for `/readyz` and the exit codes of `sync`, `poll --wait` and `status`. It is ready if its targets are
 * known and none counts against it. A completely failed pass says nothing about targets: they stay fresh for `maxStaleness`.
 * @param stateProblem why the records could not be read, so that the targets say nothing; null if they could
 */
export function readinessOf(
  targets: readonly TargetStatus[],
  { isListed, selectsNothing }: Pick<Readiness, 'isListed' | 'selectsNothing'>,
  stateProblem: string | null = null,
): Readiness {
  const notReady = targets.flatMap((status) => {
    const reason = whyNotWell(status);
    const { target, verifiedAtMs } = status;
    return reason === null ? [] : [{ target, reason, verifiedAtMs }];
  });
  const isReady = isListed && !selectsNothing && stateProblem === null && notReady.length === 0;
  return { isReady, isListed, selectsNothing, stateProblem, notReady };
}

/** Work is stuck after this time without progress, in milliseconds: longer than any step of a pass that waits for no answer. */
const STUCK_AFTER_MS = 15 * 60_000;

/** Work may be silent for this multiple of the service's timeout: it connects, and waits for an answer. */
const STUCK_AFTER_TIMEOUTS = 2;

/**
 * Reports whether the daemon is alive, and its activity.
 * @param silentMs time without progress of the running work, in milliseconds; 0 without work
 * @param timeoutMs longest silence of the service, in milliseconds
 */
export function livenessOf(
  { hasStarted, isPassing, isStopping }: { hasStarted: boolean; isPassing: boolean; isStopping: boolean },
  silentMs: number,
  timeoutMs: number,
): Liveness {
  const isStuck = silentMs > Math.max(STUCK_AFTER_MS, timeoutMs * STUCK_AFTER_TIMEOUTS);
  const state = isStuck
    ? 'stuck'
    : isStopping
      ? 'stopping'
      : isPassing || silentMs > 0
        ? 'passing'
        : hasStarted
          ? 'idle'
          : 'starting';
  return { isAlive: !isStuck, state, silentMs };
}
