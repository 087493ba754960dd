import type { SettingsFor } from '../../config/schema.ts';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { EventSink } from '../../app/events.ts';
import { type StatusPolicy, statusOfTargets, type TargetStatus } from '../../app/target-status.ts';
import type { Published } from '../../mirror/plan/record.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { statusPolicyOf } from '../../app/open-reader.ts';
import { NOT_LISTED, nextListed, type Readiness, readinessOf } from './readiness.ts';

/** How the mirror stands. */
export interface MirrorStatus {
  readonly policy: StatusPolicy;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
  /** By target, in order. */
  readonly targets: readonly TargetStatus[];
  readonly readiness: Readiness;
  /** Why the records could not be read, so that those from before stand in for them, and nothing is ready; null if they could. */
  readonly stateFailure: MirrorError | null;
}

/** Tells how the mirror stands: the one place from which page, health, metrics and notifications know it. */
export interface MirrorStatusReader {
  /** Takes in what happens. */
  readonly sink: EventSink;
  /**
   * Reads how the mirror stands.
   * @param isAnew whether it is read from the disk in any case, and not only when that is due
   * @throws what reading the disk throws: what was read before is no answer then
   */
  readonly read: (isAnew?: boolean) => Promise<MirrorStatus>;
}

/** While a pass works, the mirror is read anew at most so often, in milliseconds, and never for more than a tenth of the time. */
const LEAST_AGE_MS = 1000;
const REST_PER_READING = 10;

/** Rare events after which the mirror is read again at once, as a reading from before must not be shown. */
const READ_AT_ONCE: ReadonlySet<string> = new Set([
  'pass.finished',
  'pass.failed',
  'pass.abandoned',
  'target.drifted',
  'target.whole',
]);

/** News since the mirror was read: none, some that can wait a little, or some that cannot. */
type News = 'none' | 'some' | 'much';

/** One reading of the mirror from the disk. */
interface Reading extends Pick<MirrorStatus, 'stateFailure'> {
  readonly published: readonly Published[];
  readonly records: Awaited<ReturnType<State['records']>>;
  /** On the clock that never jumps, in milliseconds. */
  readonly readAtMs: number;
  readonly tookMs: number;
}

/** The parts of a mirror that are read. */
interface MirrorParts {
  readonly store: Pick<MirrorStore, 'inventory'>;
  readonly state: Pick<State, 'records'>;
}

const NOTHING_READ: Reading = {
  published: [],
  records: new Map(),
  stateFailure: null,
  readAtMs: Number.NEGATIVE_INFINITY,
  tookMs: 0,
};

/** Makes a reader. @param current the settings in force */
export function createMirrorStatusReader(
  current: () => SettingsFor<never>,
  mirror: MirrorParts,
): MirrorStatusReader {
  const reads = createSerialQueue();
  const policyFor = remembered(statusPolicyOf);
  let listed = NOT_LISTED;
  let wasListed = false;
  let news: News = 'much';
  let reading = NOTHING_READ;
  const isDue = ({ readAtMs, tookMs }: Reading): boolean => {
    if (news !== 'some') return news === 'much';
    return performance.now() - readAtMs > Math.max(LEAST_AGE_MS, tookMs * REST_PER_READING);
  };
  const refresh = async (): Promise<void> => {
    news = 'none';
    // Only what is read after it is known which targets there are holds all of them.
    wasListed = listed.isListed;
    try {
      reading = await readMirror(mirror, reading);
    } catch (error) {
      news = 'much';
      throw error;
    }
  };
  const read = async (isAnew: boolean): Promise<MirrorStatus> => {
    if (isAnew || isDue(reading)) await refresh();
    const { published, records, stateFailure } = reading;
    const policy = policyFor(current());
    const nowMs = Date.now();
    const targets = statusOfTargets(published, records, policy, nowMs);
    const isListed = stateFailure === null && wasListed && listed.isListed;
    const readiness = readinessOf(targets, { isListed, selectsNothing: listed.selectsNothing });
    return { policy, nowMs, targets, readiness, stateFailure };
  };
  return {
    sink: (event) => {
      listed = nextListed(listed, event);
      if (READ_AT_ONCE.has(event.name)) news = 'much';
      else if (news === 'none') news = 'some';
    },
    read: (isAnew = false) => reads.run(() => read(isAnew)),
  };
}

async function readMirror({ store, state }: MirrorParts, before: Reading): Promise<Reading> {
  const startMs = performance.now();
  const { published } = await store.inventory.read();
  let stateFailure: MirrorError | null = null;
  const records = await state.records().catch((error: unknown) => {
    stateFailure = toMirrorError(error);
    return before.records;
  });
  const readAtMs = performance.now();
  return { published, records, stateFailure, readAtMs, tookMs: readAtMs - startMs };
}

/** Remembers what a function gave for the last argument: how long a schedule pauses at most is much to reckon. */
function remembered<A extends object, R>(reckon: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | null = null;
  return (argument) => {
    if (last?.argument !== argument) last = { argument, result: reckon(argument) };
    return last.result;
  };
}
