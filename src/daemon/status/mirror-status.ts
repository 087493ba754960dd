import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { withHint } from '../../lib/text/humanize.ts';
import type { MirrorEvent } from '../../app/events.ts';
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

/** Reads the state of a mirror. */
export type ReadMirror = ReturnType<typeof createMirrorStatus>['read'];

/** Makes the single source for page, health, metrics and notifications. @param current gives the settings in force */
export function createMirrorStatus(current: () => SettingsFor<never>, { store, state }: MirrorParts) {
  /** The policy of the settings for which it was computed last: the longest pause of a schedule is expensive. */
  let known: { readonly settings: SettingsFor<never>; readonly policy: StatusPolicy } | null = null;
  let listed = NOT_LISTED;
  /** The last records that could be read. */
  let records: Awaited<ReturnType<State['records']>> = new Map();
  /** Reads the records; if that fails, earlier ones stay. @returns why it failed; null if it did not */
  const readRecords = async (): Promise<string | null> => {
    try {
      records = await state.records();
      return null;
    } catch (error) {
      // A state server may repeat the password in its answer, and the web pages show this text.
      return scrub(withHint(eventFailure(error)), secretsOf(current()));
    }
  };
  const policyNow = (): StatusPolicy => {
    const settings = current();
    if (known?.settings !== settings) known = { settings, policy: statusPolicyOf(settings) };
    return known.policy;
  };
  return {
    /** Takes in events. */
    sink: (event: MirrorEvent): void => {
      listed = nextListed(listed, event);
    },
    /** Reads the state of the mirror, with its targets sorted by their paths. @throws MirrorError if the disk cannot be read */
    read: async () => {
      // Only if the targets were known before it, a reading contains all of them.
      const wasListed = listed.isListed;
      const { published } = await store.inventory.read();
      const stateProblem = await readRecords();
      const policy = policyNow();
      const nowMs = Date.now();
      const targets = statusOfTargets(published, records, policy, nowMs);
      const { isListed, selectsNothing } = listed;
      const found = { isListed: wasListed && isListed, selectsNothing };
      return { policy, nowMs, targets, readiness: readinessOf(targets, found, stateProblem) };
    },
  };
}
