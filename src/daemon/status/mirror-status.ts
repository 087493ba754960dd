import type { SettingsFor } from '../../config/schema.ts';
import { secretsOf } from '../../config/secret.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { withHint } from '../../lib/text/humanize.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import { type StatusPolicy, statusOfTargets } from '../../app/target-status.ts';
import type { State } from '../../mirror/state/state.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { statusPolicyOf } from '../../app/open-reader.ts';
import { selectsNothing } from '../../mirror/plan/selection.ts';
import { readinessOf } from './readiness.ts';
import type { Live } from './status-schema.ts';

/** The parts of a mirror to read. */
interface MirrorParts {
  readonly store: Pick<MirrorStore, 'inventory'>;
  readonly state: Pick<State, 'records'>;
}

/** Reads the state of a mirror. */
export type ReadMirror = ReturnType<typeof createMirrorStatus>;

/**
 * Makes the single source for page, health, metrics and notifications.
 * @param current gives the settings in force
 * @param live gives the present and recent work
 * @returns reads the state of the mirror, with its targets sorted by their paths; throws MirrorError if the disk cannot be read
 */
export function createMirrorStatus(
  current: () => SettingsFor<never>,
  { store, state }: MirrorParts,
  live: () => Live,
) {
  /** The policy of the settings for which it was computed last: the longest pause of a schedule is expensive. */
  let known: { readonly settings: SettingsFor<never>; readonly policy: StatusPolicy } | null = null;
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
  return async () => {
    // Only if the targets were known before it, a reading contains all of them.
    const wasKnown = live().listed.isKnown;
    const { published } = await store.inventory.read();
    const stateProblem = await readRecords();
    const policy = policyNow();
    const nowMs = Date.now();
    const targets = statusOfTargets(published, records, policy, nowMs);
    const { listed, selection } = live();
    const found = {
      isListed: wasKnown && listed.isKnown,
      selectsNothing: selection !== null && selectsNothing(selection),
    };
    return { policy, nowMs, targets, readiness: readinessOf(targets, found, stateProblem) };
  };
}
