import { readdir } from 'node:fs/promises';

import { type ArchiveLimits, openArchive } from '../archive/archive.ts';
import type { ServiceClient } from '../client/client.ts';
import type { SettingsFor } from '../config/schema.ts';
import { createSelection } from '../config/selection.ts';
import { longestPeriodMs } from '../daemon/schedule.ts';
import { MirrorError } from '../model/errors.ts';
import type { EventSink } from '../model/events.ts';
import type { StatusPolicy } from '../model/status.ts';
import { openState, type State } from '../state/state.ts';
import { type MirrorStore, openStore, readStore } from '../store/store.ts';
import type { PassPolicy } from '../sync/pass.ts';
import type { PassContext } from '../sync/ports.ts';
import { connect, type InstallationMemory, recallInstallation, rememberer } from './installation.ts';
import { checkCommands, publishGateOf } from './publish-gate.ts';

type MirrorSettings = SettingsFor<'service' | 'directory'>;

/** Wait after a target's first failure, and the longest wait, in milliseconds. */
const TARGET_BACK_OFF = { firstDelayMs: 60_000, maxDelayMs: 3_600_000 };

const LEAST_STALENESS_MS = 15 * 60_000;

/** What passes go by, from the settings. */
export function policyOf(settings: SettingsFor<never>): PassPolicy {
  return {
    selection: createSelection(settings),
    fullCheckMs: settings.fullCheck,
    processingPatienceMs: settings.processingPatience,
    retireAfterPasses: settings.retire.afterPasses,
    guard: settings.guard,
    content: settings.content,
    concurrency: settings.concurrency,
    retry: { backOff: TARGET_BACK_OFF, slowRetryMs: TARGET_BACK_OFF.maxDelayMs },
  };
}

/** What an archive may hold, from the settings. */
function archiveLimitsOf({ archive }: SettingsFor<never>): ArchiveLimits {
  return {
    maxUnpackedBytes: archive.maxUnpackedSize,
    maxEntries: archive.maxEntries,
    maxRatio: archive.maxRatio,
    nameTwins: archive.nameTwins,
  };
}

/** What freshness is judged by, from the settings. */
export function statusPolicyOf(settings: SettingsFor<never>): StatusPolicy {
  const periodMs = longestPeriodMs(settings.schedule, settings.timezone);
  return {
    selection: createSelection(settings),
    maxStalenessMs: settings.maxStaleness ?? Math.max(LEAST_STALENESS_MS, 3 * periodMs),
    fullCheckMs: settings.fullCheck,
  };
}

/** Everything that passes need, opened: the directory is locked until it is closed. */
export interface Mirror {
  /** What a pass works with: to be asked for at the beginning of each, as it changes with the settings. */
  readonly context: MirrorContext;
  readonly policy: PassPolicy;
  readonly store: MirrorStore;
  readonly state: State;
  /** Makes everything ready for other settings; nothing changes before they are taken. */
  readonly prepare: (settings: MirrorSettings) => Promise<PreparedSettings>;
  /** Closes what settings before had opened: to be called between passes. */
  readonly closeReplaced: () => Promise<void>;
  /** Has someone told of every new state once it is durable and visible. */
  readonly onPublished: (listener: PassContext['onPublished']) => void;
  /** Remembers what a pass found out about the installation. */
  readonly rememberInstallation: () => Promise<void>;
  readonly close: () => Promise<void>;
}

type MirrorContext = PassContext<Awaited<ReturnType<MirrorStore['stage']>>>;

/** Settings that all was made ready for: one of the two is to be called. */
export interface PreparedSettings {
  readonly take: () => void;
  readonly abandon: () => Promise<void>;
}

/** Opens the directory for writing, and locks it. @throws MirrorError `directory.*` */
export function openMirrorStore(
  settings: SettingsFor<'directory'>,
  onProgress: () => void = () => {},
): Promise<MirrorStore> {
  return openStore({
    onProgress,
    directory: settings.directory,
    publish: settings.publish,
    readerGraceMs: settings.readerGrace,
    retention: settings.history,
    now: Date.now,
  });
}

/** What is wanted of a mirror beside its settings. */
export interface MirrorOptions {
  /** Called whenever the work of a pass has moved on. */
  readonly onProgress?: () => void;
  /** Whether it is told that a key works of which nothing was known before: who stays would like to know. */
  readonly tellsFirstKeys?: boolean;
}

/**
 * Opens directory, state and service for passes.
 * @throws MirrorError `directory.*`, `state.unavailable`, `settings.invalid`
 */
export async function openMirror(
  settings: MirrorSettings,
  emit: EventSink,
  options: MirrorOptions = {},
): Promise<Mirror> {
  const store = await openMirrorStore(settings, options.onProgress);
  try {
    for (const target of store.recovered) emit({ name: 'publish.recovered', target });
    if (!store.canExchange) emit({ name: 'publish.fallback', directory: settings.directory });
    const state = await openStateOf(settings, store, false, emit);
    const told = createListeners();
    const lasting = {
      onPublished: told.tell,
      store,
      state,
      emit,
      now: Date.now,
      random: Math.random,
      knownProblems: new Set<string>(),
      drifted: new Set(store.drifted),
    };
    let present = await setUp(settings, state, emit, options, null);
    const replaced: Setup[] = [];
    const closeReplaced = async (): Promise<void> => {
      for (const setup of replaced.splice(0)) await setup.close();
    };
    return {
      get context() {
        const { client: service, openArchive, beforePublish } = present;
        return { ...lasting, service, openArchive, beforePublish };
      },
      get policy() {
        return present.policy;
      },
      store,
      state,
      prepare: async (next) => {
        const setup = await setUp(next, state, emit, options, present);
        const take = (): void => {
          replaced.push(present);
          present = setup;
        };
        return { take, abandon: setup.close };
      },
      closeReplaced,
      onPublished: told.add,
      rememberInstallation: () => present.rememberInstallation(),
      close: async () => {
        await closeReplaced();
        await present.close();
        await state.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Makes a list of those who are told of new states. */
function createListeners(): {
  readonly tell: PassContext['onPublished'];
  readonly add: Mirror['onPublished'];
} {
  const listeners: PassContext['onPublished'][] = [];
  return {
    tell: (target, span) => {
      for (const listener of listeners) listener(target, span);
    },
    add: (listener) => {
      listeners.push(listener);
    },
  };
}

/** What follows from settings that may change while the daemon runs. */
interface Setup {
  readonly baseUrl: string;
  readonly memory: InstallationMemory;
  readonly client: ServiceClient;
  readonly policy: PassPolicy;
  readonly openArchive: PassContext['openArchive'];
  readonly beforePublish: PassContext['beforePublish'];
  readonly rememberInstallation: () => Promise<void>;
  readonly close: () => Promise<void>;
}

async function setUp(
  settings: MirrorSettings,
  state: State,
  emit: EventSink,
  { onProgress = () => {}, tellsFirstKeys = false }: MirrorOptions,
  before: Setup | null,
): Promise<Setup> {
  await checkCommands(settings);
  const { baseUrl } = settings.service;
  // Of one and the same installation there is one memory, also while two clients work.
  const isSame = before?.baseUrl === baseUrl;
  const memory = isSame ? before.memory : await recallInstallation(state, baseUrl, emit);
  const rememberInstallation = isSame
    ? before.rememberInstallation
    : rememberer(baseUrl, state, memory, emit);
  const client = connect(settings, memory, emit, {
    // A pause and a refused key are remembered at once: a pass that fails by it, or is killed, must not be the last to know.
    onWarning: () => void rememberInstallation(),
    onProgress,
    tellsFirstKeys,
  });
  return {
    baseUrl,
    memory,
    client,
    policy: policyOf(settings),
    openArchive: (path) => openArchive(path, archiveLimitsOf(settings)),
    beforePublish: publishGateOf(settings, onProgress),
    rememberInstallation,
    close: async () => {
      await client.close();
      await rememberInstallation();
    },
  };
}

/** Opens the state cache of a directory. @throws MirrorError `state.unavailable`, `settings.invalid` */
export function openStateOf(
  settings: SettingsFor<'directory'>,
  store: Pick<MirrorStore, 'layout' | 'id'>,
  readOnly: boolean,
  emit: EventSink,
): Promise<State> {
  const { state } = settings;
  return openState({
    address: state.store === 'sqlite' ? 'sqlite' : state.address.reveal(),
    file: store.layout.stateFile,
    directoryId: store.id,
    readOnly,
    onReset: (reason) => emit({ name: 'state.reset', reason }),
    onError: () => {},
  });
}

/** Refuses a directory that is not there: reading it would find nothing wrong. @throws MirrorError `directory.unusable` */
export async function refuseMissing(directory: string): Promise<void> {
  try {
    await readdir(directory);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MirrorError('directory.unusable', `directory: cannot read ${directory}: ${why}`, {
      cause: error,
      hint: 'Name the folder that a mirror was made in, as a user that may read it.',
    });
  }
}

/** What can be read beside a daemon that is running: no lock is taken and nothing is written. */
export interface MirrorReader {
  readonly store: Awaited<ReturnType<typeof readStore>>;
  readonly state: State;
}

/** Opens directory and state for reading. @throws MirrorError `directory.unusable`, `state.unavailable` */
export async function openReader(settings: SettingsFor<'directory'>, emit: EventSink): Promise<MirrorReader> {
  const store = await readStore(settings.directory);
  return { store, state: await openStateOf(settings, store, true, emit) };
}
