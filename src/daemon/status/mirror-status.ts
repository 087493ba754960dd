import type { SettingsFor } from '../../config/schema.ts';
import { Places } from '../../lib/concurrency/places.ts';
import { type MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import type { EventSink } from '../../app/events.ts';
import { type StatusPolicy, statusOfTargets, type TargetStatus } from '../../app/target-status.ts';
import type { Published } from '../../mirror/plan/record.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { statusPolicyOf } from '../../app/open-reader.ts';
import { NOT_LISTED, nextListed, readinessOf } from './readiness.ts';
import type { Readiness } from './status-schema.ts';

/** The state of the mirror. */
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

/** While a pass works, the mirror is read again at most so often, in milliseconds: ten thousand targets take a good part of that. */
const LEAST_AGE_MS = 2000;

/** Rare events after which the mirror is read again at once, as a reading from before must not be shown. */
export const READ_AT_ONCE: ReadonlySet<string> = new Set([
  'pass.finished',
  'pass.failed',
  'pass.abandoned',
  'target.drifted',
  'target.whole',
]);

/** One reading of the mirror from the disk. Times in milliseconds, of the clock that never jumps. */
interface Reading extends Pick<MirrorStatus, 'stateFailure'> {
  readonly published: readonly Published[];
  readonly records: Awaited<ReturnType<State['records']>>;
  /** Whether it was known before which targets there are: only then it holds all of them. */
  readonly isWhole: boolean;
  readonly readAtMs: number;
}

/** The parts of a mirror that are read. */
interface MirrorParts {
  readonly store: Pick<MirrorStore, 'inventory'>;
  readonly state: Pick<State, 'records'>;
}

/** Reads the state of the mirror: the one place from which page, health, metrics and notifications know it. */
export class MirrorStatusReader {
  readonly #current: () => SettingsFor<never>;
  readonly #mirror: MirrorParts;
  readonly #reads = new Places(1);
  readonly #policyFor = remembered(statusPolicyOf);
  #listed = NOT_LISTED;
  #reading: Reading | null = null;
  /** The records that could be read last. */
  #records: Reading['records'] = new Map();
  #hasNews = false;
  /** Whether the latest reading must not be shown any more. */
  #isOutdated = false;

  /** @param current the settings in force */
  constructor(current: () => SettingsFor<never>, mirror: MirrorParts) {
    this.#current = current;
    this.#mirror = mirror;
  }

  /** Takes in events. */
  readonly sink: EventSink = (event) => {
    this.#listed = nextListed(this.#listed, event);
    this.#hasNews = true;
    if (READ_AT_ONCE.has(event.name)) this.#isOutdated = true;
  };

  /**
   * Reads the state of the mirror.
   * @param isAnew whether it is read from the disk in any case, and not only when that is due
   * @throws MirrorError what reading the disk throws: an earlier reading is no answer then
   */
  readonly read = (isAnew = false): Promise<MirrorStatus> =>
    this.#reads.run(async () => {
      if (isAnew || this.#reading === null || this.#isDue(this.#reading)) {
        // A reading that fails leaves none.
        this.#reading = null;
        this.#reading = await this.#readDisk();
      }
      return this.#statusOf(this.#reading);
    });

  #isDue({ readAtMs }: Reading): boolean {
    return this.#isOutdated || (this.#hasNews && performance.now() - readAtMs > LEAST_AGE_MS);
  }

  async #readDisk(): Promise<Reading> {
    this.#hasNews = false;
    this.#isOutdated = false;
    const isWhole = this.#listed.isListed;
    const { published } = await this.#mirror.store.inventory.read();
    let stateFailure: MirrorError | null = null;
    try {
      this.#records = await this.#mirror.state.records();
    } catch (error) {
      stateFailure = toMirrorError(error);
    }
    return { published, records: this.#records, stateFailure, isWhole, readAtMs: performance.now() };
  }

  #statusOf({ published, records, stateFailure, isWhole }: Reading): MirrorStatus {
    const policy = this.#policyFor(this.#current());
    const nowMs = Date.now();
    const targets = statusOfTargets(published, records, policy, nowMs);
    const { isListed, selectsNothing } = this.#listed;
    const isKnown = stateFailure === null && isWhole && isListed;
    const readiness = readinessOf(targets, { isListed: isKnown, selectsNothing });
    return { policy, nowMs, targets, readiness, stateFailure };
  }
}

/** Remembers what a function gave for the last argument: how long a schedule pauses at most is much to reckon. */
function remembered<A extends object, R>(reckon: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | null = null;
  return (argument) => {
    if (last?.argument !== argument) last = { argument, result: reckon(argument) };
    return last.result;
  };
}
