import type { MirrorEvent } from '../../app/events.ts';
import { selectsNothing } from '../../mirror/plan/selection.ts';
import { type TargetStatus, whyNotWell } from '../../app/target-status.ts';
import type { Liveness, Readiness } from './status-schema.ts';

/**
 * Judges the mirror as a whole, for `/readyz` and for the exit codes of `sync`, `poll --wait` and `status`: it is known which targets
 * there are, and none of them counts against it. A pass that fails as a whole says nothing about targets: they stay fresh for `maxStaleness`.
 * Settings that select nothing of what there is are no reason to call nothing ready.
 */
export function readinessOf(
  targets: readonly TargetStatus[],
  { isListed, selectsNothing }: Pick<Readiness, 'isListed' | 'selectsNothing'>,
): Readiness {
  const notReady = targets.flatMap((status) => {
    const reason = whyNotWell(status);
    const { target, verifiedAtMs } = status;
    return reason === null ? [] : [{ target, reason, verifiedAtMs }];
  });
  const isReady = isListed && !selectsNothing && notReady.length === 0;
  return { isReady, isListed, selectsNothing, notReady };
}

/**
 * Whether it is known which targets there are: a pass that began under the settings in force came to its end, and it had a
 * whole list of repositories. Before that, a mirror all the trees of which are fresh may still lack some.
 */
export interface Listed {
  readonly isListed: boolean;
  /** Whether the list of the running pass is whole. */
  readonly isWhole: boolean;
  /** Whether the settings changed what is to be mirrored since the running pass began. */
  readonly isOutdated: boolean;
  /** Whether the settings select nothing of what the service lists. */
  readonly selectsNothing: boolean;
}

/** The state before the first pass, when nothing is known. */
export const NOT_LISTED: Listed = {
  isListed: false,
  isWhole: false,
  isOutdated: false,
  selectsNothing: false,
};

/** Settings by which other targets may be there than those that the last pass looked at. */
const SELECTING = /^(?:service\.baseUrl|targets|repositories\.|branches\.)/;

/** The state after an event. */
export function nextListed(listed: Listed, event: MirrorEvent): Listed {
  switch (event.name) {
    case 'settings.reloaded':
      return event.changed.some((name) => SELECTING.test(name))
        ? { ...listed, isListed: false, isOutdated: true }
        : listed;
    case 'pass.started':
      return { ...listed, isWhole: false, isOutdated: false };
    case 'listing.read':
      return { ...listed, isWhole: event.isWhole };
    case 'selection.checked':
      return { ...listed, selectsNothing: selectsNothing(event) };
    case 'pass.failed':
      // What is there is not what the service has that is asked now.
      return event.code === 'directory.other_service' ? { ...listed, isListed: false } : listed;
    case 'pass.finished':
      return listed.isOutdated ? listed : { ...listed, isListed: listed.isWhole };
    default:
      return listed;
  }
}

/** Work without progress for so long is stuck, in milliseconds: longer than any step of a pass takes that waits for no answer. */
const STUCK_AFTER_MS = 15 * 60_000;

/** So many times as long as the service may be silent, work may be, too: it connects, and waits for an answer. */
const STUCK_AFTER_TIMEOUTS = 2;

/**
 * Says whether the daemon is alive, and what it does.
 * @param silentMs how long the running work has made no progress, in milliseconds; 0 while there is none
 * @param timeoutMs how long the service may be silent, in milliseconds
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
