import type { SettingsFor } from '../../config/schema.ts';
import { Places } from '../../lib/concurrency/concurrency.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { secretsOf } from '../../config/secret.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { withHint } from '../../lib/text/humanize.ts';
import type { EventSink } from '../../app/events.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
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
  /** Sorted by target. */
  readonly targets: readonly TargetStatus[];
  readonly readiness: Readiness;
}

/** Shortest time between readings during a pass, in milliseconds: ten thousand targets take much of it. */
const LEAST_AGE_MS = 2000;

/** Rare events after which the mirror is read again immediately, as an older reading must not be shown. */
export const READ_AT_ONCE: ReadonlySet<string> = new Set([
  'pass.finished',
  'pass.failed',
  'pass.abandoned',
  'target.drifted',
  'target.whole',
]);

/** One reading of the mirror from the disk. Times in milliseconds, of the monotonic clock. */
interface Reading {
  readonly published: readonly Published[];
  readonly records: Awaited<ReturnType<State['records']>>;
  /** Why the records could not be read, so that earlier ones are used; null if they could. */
  readonly stateProblem: string | null;
  /** Whether the targets were known before it: only then it contains all of them. */
  readonly isWhole: boolean;
  readonly readAtMs: number;
}

/** The parts of a mirror to read. */
interface MirrorParts {
  readonly store: Pick<MirrorStore, 'inventory'>;
  readonly state: Pick<State, 'records'>;
}

/** Reads the state of the mirror: the single source for page, health, metrics and notifications. */
export class MirrorStatusReader {
  readonly #current: () => SettingsFor<never>;
  readonly #mirror: MirrorParts;
  readonly #reads = new Places(1);
  /** The policy of the settings for which it was computed last: the longest pause of a schedule is expensive. */
  #known: { readonly settings: SettingsFor<never>; readonly policy: StatusPolicy } | null = null;
  #listed = NOT_LISTED;
  #reading: Reading | null = null;
  /** The last records that could be read. */
  #records: Reading['records'] = new Map();
  #hasNews = false;
  /** Whether the latest reading is outdated. */
  #isOutdated = false;

  /** @param current gives the settings in force */
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
   * @param isAnew whether to read the disk in any case, and not only when that is due
   * @throws MirrorError if the disk cannot be read: an earlier reading is not returned then
   */
  readonly read = (isAnew = false): Promise<MirrorStatus> =>
    this.#reads.run(async () => {
      if (isAnew || this.#reading === null || this.#isDue(this.#reading)) {
        // A failed reading leaves none.
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
    let stateProblem: string | null = null;
    try {
      this.#records = await this.#mirror.state.records();
    } catch (error) {
      // A state server may repeat the password in its answer, and the web pages show this text.
      const text = withHint(eventFailure(toMirrorError(error)));
      stateProblem = scrub(text, secretsOf(this.#current()));
    }
    return { published, records: this.#records, stateProblem, isWhole, readAtMs: performance.now() };
  }

  #statusOf({ published, records, stateProblem, isWhole }: Reading): MirrorStatus {
    const settings = this.#current();
    if (this.#known?.settings !== settings) this.#known = { settings, policy: statusPolicyOf(settings) };
    const { policy } = this.#known;
    const nowMs = Date.now();
    const targets = statusOfTargets(published, records, policy, nowMs);
    const { isListed, selectsNothing } = this.#listed;
    const readiness = readinessOf(targets, { isListed: isWhole && isListed, selectsNothing }, stateProblem);
    return { policy, nowMs, targets, readiness };
  }
}
