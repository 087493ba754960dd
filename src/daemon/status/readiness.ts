import type { MirrorEvent } from '../../app/events.ts';
import { selectsNothing } from '../../mirror/plan/selection.ts';
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

/**
 * Whether the targets are known: a pass that began under the current settings has completed with a
 * complete list of repositories. Before that, a mirror may lack targets even if all its trees are fresh.
 */
export type Listed = Readonly<typeof NOT_LISTED>;

/** The state before the first pass, when nothing is known. */
export const NOT_LISTED = {
  isListed: false,
  /** Whether the list of the running pass is complete. */
  isWhole: false,
  /** Whether the running pass cannot show that: since it began, the settings select otherwise, or the state cache failed or recovered. */
  isOutdated: false,
  /** Whether the settings select nothing that the service lists. */
  selectsNothing: false,
};

/** Settings whose change may add targets that the last pass did not see. */
const SELECTING = /^(?:service\.baseUrl|targets|repositories\.|branches\.)/;

/** The state after an event. */
export function nextListed(listed: Listed, event: MirrorEvent): Listed {
  switch (event.name) {
    case 'settings.reloaded':
      return event.changed.some((name) => SELECTING.test(name))
        ? { ...listed, isListed: false, isOutdated: true }
        : listed;
    case 'state.failed':
    case 'state.recovered':
      // The records of passes in between are missing: a target that failed there would look fresh.
      return { ...listed, isListed: false, isOutdated: true };
    case 'pass.started':
      return { ...listed, isWhole: false, isOutdated: false };
    case 'listing.read':
      return { ...listed, isWhole: event.isWhole };
    case 'selection.checked':
      return { ...listed, selectsNothing: selectsNothing(event) };
    case 'pass.failed':
      // The mirrored data came from another service.
      return event.code === 'directory.other_service' ? { ...listed, isListed: false } : listed;
    case 'pass.finished':
      return listed.isOutdated ? listed : { ...listed, isListed: listed.isWhole };
    default:
      return listed;
  }
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
