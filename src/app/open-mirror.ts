import type { ArchiveLimits } from '../mirror/archive/policy.ts';
import type { ServiceClient } from '../mirror/upstream/client.ts';
import type { SettingsFor } from '../config/schema.ts';
import { createSelection } from '../config/selection.ts';
import type { EventSink } from './events.ts';
import type { State } from '../mirror/state/state.ts';
import { openStore } from '../mirror/store/directory.ts';
import type { MirrorStore } from '../mirror/store/disk.ts';
import type { PassContext } from '../mirror/pass/context.ts';
import { PullQueue } from '../mirror/pass/queue.ts';
import { ReportedOnce, PullMonitor } from '../mirror/pass/events.ts';
import type { PassPolicy } from '../mirror/pass/pass.ts';
import { connect, type InstallationMemory, recallInstallation, rememberer } from './installation.ts';
import { checkCommand, publishGateOf } from './command-hooks.ts';
import { noteRestored } from './drift-notes.ts';
import { openRecalledState } from './open-reader.ts';

type MirrorSettings = SettingsFor<'service' | 'directory'>;

/** How long a target that was never mirrored waits while the service is still processing it, in milliseconds. */
const PROCESSING_PATIENCE_MS = 15 * 60_000;

/** How many complete lists in a row must lack a repository or branch before its tree is retired. */
const RETIRE_AFTER_PASSES = 2;

/** A slower pull no longer counts against `concurrency`, and passes end without it. In milliseconds. */
const SLOW_AFTER_MS = 60_000;

/** The policy of passes, from the settings. */
export function policyOf(settings: SettingsFor<never>): PassPolicy {
  return {
    selection: createSelection(settings),
    fullCheckMs: settings.fullCheck,
    processingPatienceMs: PROCESSING_PATIENCE_MS,
    retireAfterPasses: RETIRE_AFTER_PASSES,
    guard: settings.guard,
    content: settings.content,
    concurrency: settings.concurrency,
    slowAfterMs: SLOW_AFTER_MS,
  };
}

/** The limits on the contents of an archive, from the settings. */
export function archiveLimitsOf({ archive }: SettingsFor<never>): ArchiveLimits {
  return {
    maxUnpackedBytes: archive.maxUnpackedSize,
    maxEntries: archive.maxEntries,
    nameTwins: archive.nameTwins,
  };
}

/** Everything that passes need, opened: the directory is locked until it is closed. */
export interface Mirror {
  /** Everything that a pass uses: read it at the start of each pass, as it changes with the settings. */
  readonly context: PassContext;
  readonly policy: PassPolicy;
  readonly store: MirrorStore;
  readonly state: State;
  readonly monitor: PullMonitor;
  /** Switches to other settings. If they cannot be used, nothing changes. @throws MirrorError `settings.invalid` */
  readonly take: (settings: MirrorSettings) => Promise<void>;
  /**
   * Cancels pulls from a former service, and closes everything that only earlier settings need and no pull uses any more.
   * Call it between passes.
   */
  readonly closeReplaced: () => Promise<void>;
  /** Sets the one listener that receives every new state from now on, once it is durable and visible. */
  readonly onPublished: (listener: PassContext['onPublished']) => void;
  /** Drops waiting pulls, and waits for running ones. */
  readonly pullsEnded: () => Promise<void>;
  /** Saves the facts that a pass found about the installation. */
  readonly rememberInstallation: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Opens the directory for writing, and locks it. @throws MirrorError `directory.*` */
export function openMirrorStore(
  settings: SettingsFor<'directory'>,
  { onProgress = () => {}, adopt = false }: Pick<MirrorOptions, 'onProgress' | 'adopt'> = {},
): Promise<MirrorStore> {
  return openStore({
    onProgress,
    adopt,
    directory: settings.directory,
    ...(settings.shard === undefined ? {} : { shard: settings.shard }),
    publish: settings.publish,
    nameTwins: settings.archive.nameTwins,
    readerGraceMs: settings.readerGrace,
    retention: settings.history,
    now: Date.now,
  });
}

/** The options of a mirror that are not settings. */
export interface MirrorOptions {
  /** Whether a first mirror may be made in a directory that is not empty. */
  readonly adopt?: boolean;
  /** Called at each progress of a pass. */
  readonly onProgress?: () => void;
  /** Tracks the progress of pulls. */
  readonly monitor?: PullMonitor;
  /** Whether to report a key the first time it works: for a daemon, not for a single run. */
  readonly reportFirstAccept?: boolean;
  /** Whether slow pulls continue during the following passes: a pass then ends without them. */
  readonly outlastsPasses?: boolean;
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
  const { monitor = new PullMonitor(), outlastsPasses = false } = options;
  const store = await openMirrorStore(settings, options);
  try {
    for (const target of store.recovered) emit({ name: 'publish.recovered', target });
    for (const limit of store.limits) emit({ name: 'publish.fallback', directory: store.layout.root, limit });
    const { state } = await openRecalledState(settings, store, false, emit);
    await noteRestored({ store, state }, Date.now(), (done, total) => monitor.scanned(done, total));
    let onPublished: PassContext['onPublished'] = () => {};
    const queue = new PullQueue(outlastsPasses, emit);
    const lasting = {
      onPublished: (...published: Parameters<typeof onPublished>) => onPublished(...published),
      store,
      state,
      emit,
      now: Date.now,
      reported: new ReportedOnce(),
      queue,
      monitor,
    };
    const setups = createSetups(await setUp(settings, state, emit, options, null), queue);
    return {
      get context() {
        const { client: service, archiveLimits, beforePublish } = setups.current();
        return { ...lasting, service, archiveLimits, beforePublish };
      },
      get policy() {
        return setups.current().policy;
      },
      store,
      state,
      monitor,
      take: async (next) => setups.take(await setUp(next, state, emit, options, setups.current())),
      closeReplaced: setups.closeReplaced,
      onPublished: (listener) => {
        onPublished = listener;
      },
      pullsEnded: () => queue.drain(),
      rememberInstallation: () => setups.current().rememberInstallation(),
      close: async () => {
        await queue.drain();
        await setups.close();
        await state.close();
        await store.lock.release();
      },
    };
  } catch (error) {
    await store.lock.release();
    throw error;
  }
}

/** The setup of the settings in force, and earlier ones that pulls still use. */
function createSetups(first: Setup, queue: PullQueue) {
  let current = first;
  let replaced: readonly Setup[] = [];
  /** Cancels pulls from another service than the current one, and closes replaced setups that no pull uses any more. */
  const closeReplaced = async (): Promise<void> => {
    // A pass that ran when the settings changed may have started more pulls from the former service.
    for (const { baseUrl, client } of replaced)
      if (baseUrl !== current.baseUrl) await queue.callOff(({ service }) => service === client);
    const unused = replaced.filter(({ client }) => !queue.isUsing(client));
    replaced = replaced.filter((setup) => !unused.includes(setup));
    for (const setup of unused) await setup.close();
  };
  return {
    current: () => current,
    take: (next: Setup): void => {
      // Data of another service must not be published once the settings name this one.
      if (next.baseUrl !== current.baseUrl) void queue.callOff(() => true);
      replaced = [...replaced, current];
      current = next;
    },
    closeReplaced,
    close: async (): Promise<void> => {
      await closeReplaced();
      await current.close();
    },
  };
}

/** Everything made from settings that may change while the daemon runs. */
interface Setup {
  readonly baseUrl: string;
  readonly memory: InstallationMemory;
  readonly client: ServiceClient;
  readonly policy: PassPolicy;
  readonly archiveLimits: ArchiveLimits;
  readonly beforePublish: PassContext['beforePublish'];
  readonly rememberInstallation: () => Promise<void>;
  readonly close: () => Promise<void>;
}

async function setUp(
  settings: MirrorSettings,
  state: State,
  emit: EventSink,
  { onProgress = () => {}, reportFirstAccept = false }: MirrorOptions,
  before: Setup | null,
): Promise<Setup> {
  await checkCommand(settings, 'afterPublish');
  await checkCommand(settings, 'beforePublish');
  const { baseUrl } = settings.service;
  // Two clients of the same installation share one memory.
  const isSame = before?.baseUrl === baseUrl;
  const memory = isSame ? before.memory : await recallInstallation(state, baseUrl);
  const rememberInstallation = isSame ? before.rememberInstallation : rememberer(baseUrl, state, memory);
  const client = connect(settings, memory, emit, {
    // Save a pause or a refused key immediately, as the pass may fail because of it, or be killed.
    onWarning: () => void rememberInstallation(),
    onProgress,
    reportFirstAccept,
  });
  return {
    baseUrl,
    memory,
    client,
    policy: policyOf(settings),
    archiveLimits: archiveLimitsOf(settings),
    beforePublish: publishGateOf(settings, onProgress),
    rememberInstallation,
    close: async () => {
      await client.close();
      await rememberInstallation();
    },
  };
}
