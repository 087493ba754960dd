import { readdir } from 'node:fs/promises';
import type { SettingsFor } from '../config/schema.ts';
import { createSelection } from '../config/selection.ts';
import { longestPeriodMs } from './schedule.ts';
import { systemCode } from '../lib/errors/disk-errors.ts';
import { MirrorError } from '../lib/errors/errors.ts';
import { eventFailure } from '../mirror/pass/events.ts';
import type { EventSink } from './events.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { ofTargets } from './target-names.ts';
import { type StatusPolicy, statusOfTargets, type TargetStatus } from './target-status.ts';
import type { Published, TargetRecord } from '../mirror/plan/record.ts';
import { openState, type State, stateIdOf, unlessStateFails } from '../mirror/state/state.ts';
import { readStore, type StoreReader } from '../mirror/store/directory.ts';

/** Opens a mirror for reports: kept apart from the code that passes need, which takes much longer to load. */

const LEAST_STALENESS_MS = 15 * 60_000;

/** The policy by which freshness is judged, from the settings. */
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
    // Of several instances that share a directory each remembers what it did itself.
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

/** Refuses a directory that is not there: reading it would find nothing wrong. @throws MirrorError `directory.unusable` */
export async function refuseMissing(directory: string): Promise<void> {
  try {
    await readdir(directory);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') {
      throw new MirrorError(
        'directory.unusable',
        `directory: there is no ${directory}: nothing was mirrored there yet.`,
        {
          cause: error,
          hint: `\`${ownCommand('sync')}\` makes the first pass. If there should be a mirror, check the setting directory.`,
        },
      );
    }
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `directory: cannot read ${directory}: ${why}`, {
      cause: error,
      hint: 'Name the folder that a mirror was made in, as a user that may read it.',
    });
  }
}

interface RecalledState {
  readonly state: State;
  /** What it remembered of targets when it was opened; none where it could not be read. */
  readonly records: ReadonlyMap<string, TargetRecord>;
}

/** Opens the state cache, and has the store know what that remembers of trees: without it, the store reads all manifests once. */
export async function openRecalledState(
  settings: SettingsFor<'directory'>,
  store: Pick<StoreReader, 'layout' | 'id' | 'inventory'>,
  readOnly: boolean,
  emit: EventSink,
): Promise<RecalledState> {
  const state = await openStateOf(settings, store, readOnly, emit);
  const records = await unlessStateFails(state.records(), new Map<string, TargetRecord>());
  store.inventory.recall([...records.values()].flatMap(({ tree }) => tree ?? []));
  return { state, records };
}

/** The directory and the state for reading beside a running daemon: no lock is taken and nothing is written. */
export interface MirrorReader extends RecalledState {
  readonly store: StoreReader;
}

/**
 * Reads a mirror, also beside a daemon that works there.
 * @param mayBeMissing whether a directory that is not there counts as one in which nothing was mirrored yet
 * @throws MirrorError `directory.unusable`, `state.unavailable`, and what the work throws
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
  try {
    return await work({ store, ...recalled });
  } finally {
    await recalled.state.close();
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

/**
 * Reads the status of all targets, also where the state cache cannot be read.
 * @param asked names and patterns of those whose status is wanted; none for all
 * @throws MirrorError `target.unknown`
 */
export async function readTargets(
  settings: SettingsFor<'directory'>,
  { store, records }: MirrorReader,
  asked: readonly string[] = [],
): Promise<KnownTargets> {
  const policy = statusPolicyOf(settings);
  const nowMs = Date.now();
  // Read after the records: a target that is published in between would have no record yet, and would seem to wait.
  const { published } = await store.inventory.read();
  const all = statusOfTargets(published, records, policy, nowMs);
  const statuses = ofTargets(all, asked, store.layout.mirror);
  return { nowMs, maxStalenessMs: policy.maxStalenessMs, published, records, statuses };
}
