import { readdir } from 'node:fs/promises';

import { type ArchiveLimits, openArchive } from '../archive/archive.ts';
import { createClient, type ServiceClient } from '../client/client.ts';
import type { PauseMemory } from '../client/pause.ts';
import type { ReferenceMemory } from '../client/references.ts';
import { createTransport } from '../client/transport.ts';
import type { SettingsFor } from '../config/schema.ts';
import { secretsIn } from '../config/secrets.ts';
import { createSelection } from '../config/selection.ts';
import { longestPeriodMs } from '../daemon/schedule.ts';
import { MirrorError } from '../model/errors.ts';
import type { EventSink } from '../model/events.ts';
import type { StatusPolicy } from '../model/status.ts';
import { openState, type State } from '../state/state.ts';
import { type MirrorStore, openStore, readStore } from '../store/store.ts';
import type { PassPolicy } from '../sync/pass.ts';
import { tolerateStateFailure } from '../sync/state-failures.ts';
import type { PassContext } from '../sync/ports.ts';

type ServiceSettings = SettingsFor<'service'>;
type MirrorSettings = SettingsFor<'service' | 'directory'>;

/** Wait after a target's first failure, and the longest wait, in milliseconds. */
const TARGET_BACK_OFF = { firstDelayMs: 60_000, maxDelayMs: 3_600_000 };

const LEAST_STALENESS_MS = 15 * 60_000;

/** The secrets as they are now, to keep them out of every output: also the password alone of the store's address. */
export function secretsOf(settings: SettingsFor<never>): string[] {
  const { state } = settings;
  const passwords = state.store === 'sqlite' ? [] : passwordOf(state.address.reveal());
  return [...secretsIn(settings), ...passwords];
}

/** The password in a store's address, as it stands there and as it is meant. */
function passwordOf(address: string): string[] {
  const password = URL.parse(address)?.password ?? '';
  return password === '' ? [] : [password, decodeURIComponent(password)];
}

/** What is known of an installation; outlives the process where there is a state to keep it in. */
type InstallationMemory = ReferenceMemory & PauseMemory;

/**
 * Opens the way to the service.
 * @param onPause called when the service has asked for no requests for a while, which `memory` then holds
 */
export function connect(
  settings: ServiceSettings,
  memory: InstallationMemory,
  emit: EventSink,
  onPause: () => void = () => {},
): ServiceClient {
  const { service } = settings;
  const { apiToken } = service;
  const transport = createTransport({
    baseUrl: service.baseUrl,
    credentials: {
      current: () => service.apiKey.reveal(),
      v1: apiToken === undefined ? null : () => apiToken.reveal(),
    },
    connectTimeoutMs: service.connectTimeout,
    headersTimeoutMs: service.headersTimeout,
    stallTimeoutMs: service.stallTimeout,
    connections: settings.concurrency + 2,
    retries: service.retries,
    maxRetryDelayMs: service.maxRetryDelay,
    maxAnswerBytes: service.maxAnswerSize,
    pause: memory,
    onPause,
    onRetry: ({ code, message, hint }, delayMs) =>
      emit({ name: 'service.retry', code, message, hint: hint ?? null, delayMs }),
  });
  return createClient(transport, memory, { maxArchiveBytes: settings.archive.maxSize });
}

/** What passes go by, from the settings. */
export function policyOf(settings: SettingsFor<never>): PassPolicy {
  return {
    selection: createSelection(settings),
    fullCheckMs: settings.fullCheck,
    processingPatienceMs: settings.processingPatience,
    retireAfterPasses: settings.retire.afterPasses,
    guard: settings.guard,
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
  readonly context: PassContext<Awaited<ReturnType<MirrorStore['stage']>>>;
  readonly store: MirrorStore;
  readonly state: State;
  readonly policy: PassPolicy;
  /** Remembers what a pass found out about the installation. */
  readonly rememberInstallation: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Opens the directory for writing, and locks it. @throws MirrorError `directory.*` */
export function openMirrorStore(settings: SettingsFor<'directory'>): Promise<MirrorStore> {
  return openStore({
    directory: settings.directory,
    publish: settings.publish,
    readerGraceMs: settings.readerGrace,
    retention: settings.history,
    now: Date.now,
  });
}

/**
 * Opens directory, state and service for passes.
 * @throws MirrorError `directory.*`, `state.unavailable`, `settings.invalid`
 */
export async function openMirror(settings: MirrorSettings, emit: EventSink): Promise<Mirror> {
  const store = await openMirrorStore(settings);
  try {
    for (const target of store.recovered) emit({ name: 'publish.recovered', target });
    if (!store.canExchange) emit({ name: 'publish.fallback', directory: settings.directory });
    const state = await openStateOf(settings, store, false, emit);
    const memory = await recallInstallation(state, settings.service.baseUrl, emit);
    const rememberInstallation = rememberer(settings.service.baseUrl, state, memory, emit);
    // A pause is remembered at once: a pass that fails by it, or is killed meanwhile, must not be the last to know.
    const client = connect(settings, memory, emit, () => void rememberInstallation());
    return {
      context: {
        service: client,
        store,
        state,
        openArchive: (path) => openArchive(path, archiveLimitsOf(settings)),
        emit,
        now: Date.now,
        random: Math.random,
        knownProblems: new Set(),
        drifted: new Set(store.drifted),
      },
      store,
      state,
      policy: policyOf(settings),
      rememberInstallation,
      close: async () => {
        await client.close();
        await rememberInstallation();
        await state.close();
        await store.close();
      },
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** What is remembered of the installation at an address; nothing of another one. */
export async function recallInstallation(
  state: State,
  baseUrl: string,
  emit: EventSink,
): Promise<InstallationMemory> {
  const installation = await tolerateStateFailure(emit, () => state.installation(), null);
  if (installation?.baseUrl !== baseUrl) return { form: null, pausedUntilMs: null };
  return { form: installation.referenceForm, pausedUntilMs: installation.pausedUntilMs ?? null };
}

/** Makes a function that writes down what is known of the installation, if it changed; one write after the other. */
function rememberer(
  baseUrl: string,
  state: State,
  memory: InstallationMemory,
  emit: EventSink,
): () => Promise<void> {
  let known = { ...memory };
  let written = Promise.resolve();
  const write = async (): Promise<void> => {
    const { form, pausedUntilMs } = memory;
    if (form === known.form && pausedUntilMs === known.pausedUntilMs) return;
    const found = { baseUrl, referenceForm: form, pausedUntilMs: pausedUntilMs ?? null };
    await tolerateStateFailure(emit, () => state.saveInstallation(found), undefined);
    known = { ...memory, form, pausedUntilMs: found.pausedUntilMs };
  };
  return () => {
    written = written.then(write);
    return written;
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
