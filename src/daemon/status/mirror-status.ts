import type { SettingsFor } from '../../config/schema.ts';
import { toMirrorError } from '../../lib/errors/errors.ts';
import { secretsOf } from '../../config/secret.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { withHint } from '../../lib/text/humanize.ts';
import type { EventSink } from '../../app/events.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { type StatusPolicy, statusOfTargets } from '../../app/target-status.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { statusPolicyOf } from '../../app/open-reader.ts';
import { NOT_LISTED, nextListed, readinessOf } from './readiness.ts';

/** The parts of a mirror to read. */
interface MirrorParts {
  readonly store: Pick<MirrorStore, 'inventory'>;
  readonly state: Pick<State, 'records'>;
}

/** Reads the state of the mirror: the single source for page, health, metrics and notifications. */
export class MirrorStatusReader {
  readonly #current: () => SettingsFor<never>;
  readonly #mirror: MirrorParts;
  /** The policy of the settings for which it was computed last: the longest pause of a schedule is expensive. */
  #known: { readonly settings: SettingsFor<never>; readonly policy: StatusPolicy } | null = null;
  #listed = NOT_LISTED;
  /** The last records that could be read. */
  #records: Awaited<ReturnType<State['records']>> = new Map();

  /** @param current gives the settings in force */
  constructor(current: () => SettingsFor<never>, mirror: MirrorParts) {
    this.#current = current;
    this.#mirror = mirror;
  }

  /** Takes in events. */
  readonly sink: EventSink = (event) => {
    this.#listed = nextListed(this.#listed, event);
  };

  /** Reads the state of the mirror, with its targets sorted by their paths. @throws MirrorError if the disk cannot be read */
  readonly read = async () => {
    // Only if the targets were known before it, a reading contains all of them.
    const wasListed = this.#listed.isListed;
    const { published } = await this.#mirror.store.inventory.read();
    const stateProblem = await this.#readRecords();
    const policy = this.#policy();
    const nowMs = Date.now();
    const targets = statusOfTargets(published, this.#records, policy, nowMs);
    const { isListed, selectsNothing } = this.#listed;
    const listed = { isListed: wasListed && isListed, selectsNothing };
    return { policy, nowMs, targets, readiness: readinessOf(targets, listed, stateProblem) };
  };

  /** Reads the records; if that fails, earlier ones stay. @returns why it failed; null if it did not */
  async #readRecords(): Promise<string | null> {
    try {
      this.#records = await this.#mirror.state.records();
      return null;
    } catch (error) {
      // A state server may repeat the password in its answer, and the web pages show this text.
      return scrub(withHint(eventFailure(toMirrorError(error))), secretsOf(this.#current()));
    }
  }

  #policy(): StatusPolicy {
    const settings = this.#current();
    if (this.#known?.settings !== settings) this.#known = { settings, policy: statusPolicyOf(settings) };
    return this.#known.policy;
  }
}
