import { readdir } from 'node:fs/promises';
import type { SettingsFor } from '../config/schema.ts';
import { createSelection } from '../config/selection.ts';
import { longestPeriodMs } from './schedule.ts';
import { closing } from '../lib/concurrency/shared-work.ts';
import { causeOf, systemCode } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { eventFailure } from '../mirror/pass/events.ts';
import type { EventSink } from './events.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { ofTargets } from './target-names.ts';
import { type StatusPolicy, statusOfTargets, type TargetStatus } from './target-status.ts';
import type { Published, TargetRecord } from '../mirror/plan/record.ts';
import { openState, type State, stateIdOf } from '../mirror/state/state.ts';
import { readStore, type StoreReader } from '../mirror/store/directory.ts';

// Reports need this file alone: the code of passes takes much longer to load.

const LEAST_STALENESS_MS = 15 * 60_000;

/** The rules for freshness, from the settings. */
export function statusPolicyOf(settings: SettingsFor<never>): StatusPolicy {
  const periodMs = longestPeriodMs(settings.schedule, settings.timezone);
  return {
    selection: createSelection(settings),
    maxStalenessMs: settings.maxStaleness ?? Math.max(LEAST_STALENESS_MS, 3 * periodMs),
    fullCheckMs: settings.fullCheck,
  };
}

/** Opens the state cache of a directory. @throws MirrorError `state.unavailable`, `settings.invalid` */
export function openStateOf(
  settings: SettingsFor<'directory'>,
  store: Pick<StoreReader, 'layout' | 'id'>,
  readOnly: boolean,
  emit: EventSink,
): Promise<State> {
  const { state, shard } = settings;
  return openState({
    address: state.store === 'sqlite' ? 'sqlite' : state.address.reveal(),
    file: store.layout.stateFile,
    // Each of several instances in a directory stores its own work.
    directoryId: stateIdOf(store.id, shard),
    sharedService: settings.service.baseUrl ?? null,
    readOnly,
    onReset: (reason) => emit({ name: 'state.reset', reason }),
    listener: {
      onFailed: (error) => emit({ name: 'state.failed', ...eventFailure(error) }),
      onRecovered: () => emit({ name: 'state.recovered' }),
    },
  });
}

/** Refuses a missing directory: reading it would find no faults. @throws MirrorError `directory.unusable` */
export async function refuseMissing(directory: string): Promise<void> {
  await readdir(directory).catch((error: Error) => {
    const cause = causeOf(error);
    const [problem, hint] =
      systemCode(error) === 'ENOENT'
        ? [
            `there is no ${directory}: nothing was mirrored there yet.`,
            `\`${ownCommand('sync')}\` makes the first pass. If there should be a mirror, check the setting directory.`,
          ]
        : [
            `cannot read ${directory}: ${cause?.what ?? error.message}`,
            cause?.hint ?? 'Name the folder that a mirror was made in.',
          ];
    throw new MirrorError('directory.unusable', `directory: ${problem}`, { cause: error, hint });
  });
}

/** Opens the state cache, and gives its facts about trees to the store, which would otherwise read all manifests. */
export async function openRecalledState(
  settings: SettingsFor<'directory'>,
  store: Pick<StoreReader, 'layout' | 'id' | 'inventory'>,
  readOnly: boolean,
  emit: EventSink,
): Promise<Omit<MirrorReader, 'store'>> {
  const state = await openStateOf(settings, store, readOnly, emit);
  const records = await state.records().catch(() => new Map<string, TargetRecord>());
  store.inventory.recall([...records.values()].flatMap(({ tree }) => tree ?? []));
  return { state, records };
}

/** The directory and the state for reading while a daemon runs: takes no lock and writes nothing. */
export interface MirrorReader {
  readonly store: StoreReader;
  readonly state: State;
  /** The records of targets when the state was opened; none if it could not be read. */
  readonly records: ReadonlyMap<string, TargetRecord>;
}

/**
 * Reads a mirror, even while a daemon works there.
 * @param mayBeMissing whether a missing directory counts as an empty mirror
 * @throws MirrorError `directory.unusable`, `state.unavailable`, and errors of the work
 */
export async function withReader<T>(
  settings: SettingsFor<'directory'>,
  emit: EventSink,
  work: (reader: MirrorReader) => Promise<T>,
  mayBeMissing = false,
): Promise<T> {
  if (!mayBeMissing) await refuseMissing(settings.directory);
  const store = await readStore(settings.directory, settings.shard);
  const recalled = await openRecalledState(settings, store, true, emit);
  return closing(recalled.state, () => work({ store, ...recalled }));
}

/** The targets of a mirror, from the directory and the state cache. */
export interface KnownTargets {
  readonly nowMs: number;
  readonly maxStalenessMs: number;
  readonly published: readonly Published[];
  readonly records: ReadonlyMap<string, TargetRecord>;
  readonly statuses: readonly TargetStatus[];
}

/**
 * Reads the status of targets, even if the state cache cannot be read.
 * @param asked names and patterns of targets; none for all
 * @throws MirrorError `target.unknown`
 */
export async function readTargets(
  settings: SettingsFor<'directory'>,
  { store, records }: MirrorReader,
  asked: readonly string[] = [],
): Promise<KnownTargets> {
  const policy = statusPolicyOf(settings);
  const nowMs = Date.now();
  // Read this after the records: otherwise a target published in between would have no record, and seem to wait.
  const { published } = await store.inventory.read();
  const all = statusOfTargets(published, records, policy, nowMs);
  const statuses = ofTargets(all, asked, store.layout.mirror);
  return { nowMs, maxStalenessMs: policy.maxStalenessMs, published, records, statuses };
}
