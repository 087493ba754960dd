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
import { checkCommands, publishGateOf } from './command-hooks.ts';
import { noteRestored } from './drift-notes.ts';
import { openRecalledState } from './open-reader.ts';

type MirrorSettings = SettingsFor<'service' | 'directory'>;

/** How long a target that was never mirrored waits while the service is still processing it, in milliseconds. */
const PROCESSING_PATIENCE_MS = 15 * 60_000;

/** How many complete lists in a row must lack a repository or branch before its tree is retired. */
const RETIRE_AFTER_PASSES = 2;

/** A pull that takes longer no longer counts against `concurrency`, and passes end without it. In milliseconds. */
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
  /** Everything that a pass uses: read it anew at the beginning of each pass, as it changes with the settings. */
  readonly context: PassContext;
  readonly policy: PassPolicy;
  readonly store: MirrorStore;
  readonly state: State;
  readonly monitor: PullMonitor;
  /** Goes by other settings from now on. Where they cannot be used nothing changes. @throws MirrorError `settings.invalid` */
  readonly take: (settings: MirrorSettings) => Promise<void>;
  /**
   * Calls off pulls that ask a former service, and closes everything that earlier settings had opened and no pull uses any more.
   * To be called between passes.
   */
  readonly closeReplaced: () => Promise<void>;
  /** Sets the one listener that receives every new state from now on, once it is durable and visible. */
  readonly onPublished: (listener: PassContext['onPublished']) => void;
  /** Takes back the pulls that wait, and waits for those that go on. */
  readonly pullsEnded: () => Promise<void>;
  /** Remembers what a pass found out about the installation. */
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
  /** Whether a first mirror may be made beside what is in the directory already. */
  readonly adopt?: boolean;
  /** Called whenever the work of a pass has moved on. */
  readonly onProgress?: () => void;
  /** Keeps the progress of pulls. */
  readonly monitor?: PullMonitor;
  /** Whether a key is reported the first time that it works: wanted by a daemon, and not by a single run. */
  readonly reportFirstAccept?: boolean;
  /** Whether pulls that take long go on beside the passes that follow: a pass then ends without them. */
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
    tellOpened(store, emit);
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

/** Emits events about the findings when the directory was opened. */
function tellOpened({ recovered, limits, layout }: MirrorStore, emit: EventSink): void {
  for (const target of recovered) emit({ name: 'publish.recovered', target });
  for (const limit of limits) emit({ name: 'publish.fallback', directory: layout.root, limit });
}

/** The setup of the settings in force, and earlier ones that pulls still use. */
interface Setups {
  readonly current: () => Setup;
  readonly take: (next: Setup) => void;
  /** Calls off pulls that ask another service than the one in force, and closes replaced setups that no pull uses any more. */
  readonly closeReplaced: () => Promise<void>;
  readonly close: () => Promise<void>;
}

function createSetups(first: Setup, queue: PullQueue): Setups {
  let current = first;
  let replaced: readonly Setup[] = [];
  const closeReplaced = async (): Promise<void> => {
    // A pass that was under way when the settings changed may have begun more of the former service's since.
    for (const { baseUrl, client } of replaced)
      if (baseUrl !== current.baseUrl) await queue.callOff(({ service }) => service === client);
    const unused = replaced.filter(({ client }) => !queue.isUsing(client));
    replaced = replaced.filter((setup) => !unused.includes(setup));
    for (const setup of unused) await setup.close();
  };
  return {
    current: () => current,
    take: (next) => {
      // What another service gives is not to be published once the settings name this one.
      if (next.baseUrl !== current.baseUrl) void queue.callOff(() => true);
      replaced = [...replaced, current];
      current = next;
    },
    closeReplaced,
    close: async () => {
      await closeReplaced();
      await current.close();
    },
  };
}

/** Everything that is made from settings that may change while the daemon runs. */
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
  await checkCommands(settings);
  const { baseUrl } = settings.service;
  // Of one and the same installation there is one memory, also while two clients work.
  const isSame = before?.baseUrl === baseUrl;
  const memory = isSame ? before.memory : await recallInstallation(state, baseUrl);
  const rememberInstallation = isSame ? before.rememberInstallation : rememberer(baseUrl, state, memory);
  const client = connect(settings, memory, emit, {
    // A pause and a refused key are remembered at once: a pass that fails by it, or is killed, must not be the last to know.
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
