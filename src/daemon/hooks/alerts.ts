import type { SettingsFor } from '../../config/schema.ts';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStatusReader } from '../status/mirror-status.ts';
import { type Notification, tellOfEvent, tellOfTargets, type Troubles } from './notifications.ts';

/** Everything that alerts need from the rest of the daemon. */
export interface AlertPorts {
  /** The settings in force. */
  readonly current: () => SettingsFor<never>;
  readonly readMirror: MirrorStatusReader['read'];
  readonly state: Pick<State, 'troubles' | 'saveTroubles'>;
  readonly tell: (notifications: readonly Notification[]) => void;
  /** Called after a pass that leaves the whole mirror fresh. */
  readonly beat: () => void;
  readonly emit: EventSink;
}

/** Finds after every event whether something turned that is to be told, and after every pass whether the mirror is fresh. */
export interface Alerts {
  readonly sink: EventSink;
  /** All that was found was told: it is remembered from now on. */
  readonly onTold: () => void;
  /** Comes to the end of what happened so far. */
  readonly close: () => Promise<void>;
}

/** Drift is noted a moment after its event, and may be over by then: the wait before it is judged, in milliseconds. */
const SETTLE_MS = 1000;

/**
 * Makes alerts. Notifications are remembered once they have arrived, so that a restart neither repeats a trouble nor
 * forgets one.
 */
export function createAlerts({ current, readMirror, state, tell, beat, emit }: AlertPorts): Alerts {
  const judging = createSerialQueue();
  let troubles: Troubles | null = null;
  let settling: NodeJS.Timeout | undefined;
  const judge = (work: () => Promise<void>): void => {
    judging.run(work).catch((error: unknown) => {
      // What cannot be read now is judged after the next pass.
      emit({ name: 'state.failed', ...eventFailure(error) });
    });
  };
  const isTelling = (): boolean => current().hooks.webhook !== undefined;
  const tellNew = async (findNew: (known: Troubles) => Notification[]): Promise<void> => {
    if (!isTelling()) return;
    troubles ??= new Map(Object.entries((await state.troubles()) ?? {}));
    const notifications = findNew(troubles);
    if (notifications.length > 0) tell(notifications);
  };
  /** @param isAfterPass whether a pass came to its end just now: the heartbeat is for that alone */
  const judgeTargets = async (isAfterPass: boolean): Promise<void> => {
    const isBeating = isAfterPass && current().hooks.heartbeat !== undefined;
    if (!isTelling() && !isBeating) return;
    const { targets, readiness, stateFailure } = await readMirror(true);
    // The store reports its failure; this is judged after the next pass.
    if (stateFailure !== null) return;
    await tellNew((known) => tellOfTargets(known, targets, readiness));
    if (isBeating && readiness.isReady) beat();
  };
  const remember = async (): Promise<void> => {
    if (troubles === null) return;
    await state.saveTroubles(Object.fromEntries(troubles));
  };
  return {
    sink: (event) => {
      judge(() => tellNew((known) => tellOfEvent(known, event)));
      switch (event.name) {
        case 'pass.finished':
        case 'pass.failed':
          judge(() => judgeTargets(event.name === 'pass.finished'));
          break;
        case 'target.drifted':
        case 'target.whole':
          clearTimeout(settling);
          settling = setTimeout(() => judge(() => judgeTargets(false)), SETTLE_MS).unref();
          break;
        default:
      }
    },
    onTold: () => judge(remember),
    close: async () => {
      clearTimeout(settling);
      await judging.done();
    },
  };
}
