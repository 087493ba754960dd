import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { eventFailure, type EventSink, type MirrorEvent } from '../../mirror/pass/events.ts';
import { readinessOf } from '../status/readiness.ts';
import { NOT_LISTED, nextListed } from '../status/listed.ts';
import { type Notification, tellOfEvent, tellOfTargets, type Troubles } from './notifications.ts';
import { statusOfTargets } from '../../mirror/plan/target-status.ts';
import { tolerateStateFailure } from '../../mirror/pass/state-failures.ts';
import type { Mirror } from '../start/open-mirror.ts';
import { statusPolicyOf } from '../start/open-reader.ts';

/** Where the alerts's findings go. */
interface Findings {
  readonly tell: (notifications: readonly Notification[]) => void;
  /** After a pass that leaves the whole mirror fresh. */
  readonly beat: () => void;
  readonly emit: EventSink;
}

/** Judges after every event whether something turned that is to be told, and after every pass whether the mirror is fresh. */
export interface Alerts {
  readonly sink: EventSink;
  /** All that was found was told: it is remembered from now on. */
  readonly onTold: () => void;
  /** Comes to the end of what happened so far. */
  readonly close: () => Promise<void>;
}

/** Drift is noted a moment after its event, and may be over again: it is judged after so long, in milliseconds. */
const SETTLE_MS = 1000;

/**
 * Makes a alerts. What was told is remembered once it has arrived, so that no trouble is told again only because the program
 * began anew, and none is forgotten by it.
 * @param current the settings in force
 */
export function createAlerts(
  current: () => SettingsFor<'directory'>,
  mirror: Pick<Mirror, 'store' | 'state'>,
  findings: Findings,
): Alerts {
  const judgement = createJudgement(current, mirror, findings);
  const judging = createSerialQueue();
  let settling: NodeJS.Timeout | undefined;
  const inTurn = (work: () => Promise<void>): void => {
    judging.run(work).catch((error: unknown) => {
      // What cannot be read now is judged after the next pass.
      findings.emit({ name: 'state.failed', ...eventFailure(error) });
    });
  };
  return {
    sink: (event) => {
      inTurn(() => judgement.ofEvent(event));
      if (event.name === 'pass.finished' || event.name === 'pass.failed')
        inTurn(() => judgement.ofTargets(event.name === 'pass.finished'));
      if (event.name !== 'target.drifted' && event.name !== 'target.whole') return;
      clearTimeout(settling);
      settling = setTimeout(() => inTurn(() => judgement.ofTargets(false)), SETTLE_MS);
      settling.unref();
    },
    onTold: () => inTurn(judgement.remember),
    close: async () => {
      clearTimeout(settling);
      await judging.done();
    },
  };
}

/** What is judged, one after the other. */
interface Completeness {
  readonly ofEvent: (event: MirrorEvent) => Promise<void>;
  /** @param isAfterPass whether a pass came to its end just now: the heartbeat is for that alone */
  readonly ofTargets: (isAfterPass: boolean) => Promise<void>;
  readonly remember: () => Promise<void>;
}

function createJudgement(
  current: () => SettingsFor<'directory'>,
  { store, state }: Pick<Mirror, 'store' | 'state'>,
  { tell, beat, emit }: Findings,
): Completeness {
  let troubles: Troubles | null = null;
  let listed = NOT_LISTED;
  const isTelling = (): boolean => current().hooks.webhook !== undefined;
  const tellNew = async (findNew: (known: Troubles) => Notification[]): Promise<void> => {
    if (!isTelling()) return;
    troubles ??= new Map(Object.entries(await tolerateStateFailure(emit, state.troubles, {})));
    const notifications = findNew(troubles);
    if (notifications.length > 0) tell(notifications);
  };
  return {
    ofEvent: async (event) => {
      listed = nextListed(listed, event);
      await tellNew((known) => tellOfEvent(known, event));
    },
    ofTargets: async (isAfterPass) => {
      const isBeating = isAfterPass && current().hooks.heartbeat !== undefined;
      if (!isTelling() && !isBeating) return;
      const published = await store.published();
      const records = await state.records();
      const drift = await state.drift();
      const statuses = statusOfTargets(published, records, drift, statusPolicyOf(current()), Date.now());
      const readiness = readinessOf(statuses, listed);
      await tellNew((known) => tellOfTargets(known, statuses, readiness));
      if (isBeating && readiness.isReady) beat();
    },
    remember: async () => {
      if (troubles === null) return;
      const present = Object.fromEntries(troubles);
      await tolerateStateFailure(emit, () => state.saveTroubles(present), undefined);
    },
  };
}
