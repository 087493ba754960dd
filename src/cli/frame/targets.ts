import type { SettingsFor } from '../../config/schema.ts';
import { type MirrorReader, openReader, refuseMissing, statusPolicyOf } from '../../app/open-reader.ts';
import type { TargetRecord, Published } from '../../mirror/plan/record.ts';
import { statusOfTargets, type TargetStatus } from '../../app/target-status.ts';
import { tellEvent } from './output.ts';

/**
 * Reads a mirror, also beside a daemon that works there.
 * @throws MirrorError `directory.unusable`, `state.unavailable`, and what the work throws
 */
export async function withReader<T>(
  settings: SettingsFor<'directory'>,
  work: (reader: MirrorReader) => Promise<T>,
): Promise<T> {
  await refuseMissing(settings.directory);
  const reader = await openReader(settings, tellEvent);
  try {
    return await work(reader);
  } finally {
    await reader.state.close();
  }
}

/** The targets of a mirror, as the directory and the state cache have them. */
export interface KnownTargets {
  readonly nowMs: number;
  readonly maxStalenessMs: number;
  readonly published: readonly Published[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly statuses: readonly TargetStatus[];
}

/** Reads the status of all targets, also where the state cache cannot be read. */
export async function readTargets(
  settings: SettingsFor<'directory'>,
  { store, records }: MirrorReader,
): Promise<KnownTargets> {
  const policy = statusPolicyOf(settings);
  const nowMs = Date.now();
  // After the records, which were read when the state was opened: of what is published meanwhile there would be none, and it would seem to wait.
  const { published } = await store.inventory.read();
  const statuses = statusOfTargets(published, records, policy, nowMs);
  return { nowMs, maxStalenessMs: policy.maxStalenessMs, published, records, statuses };
}
