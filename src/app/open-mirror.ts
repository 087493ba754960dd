import type { ArchiveLimits } from '../mirror/archive/policy.ts';
import type { SettingsFor } from '../config/schema.ts';
import { createSelection } from '../config/selection.ts';
import type { EventSink } from './events.ts';
import type { State } from '../mirror/state/state.ts';
import { openStore } from '../mirror/store/directory.ts';
import type { MirrorStore } from '../mirror/store/disk.ts';
import type { PassContext } from '../mirror/pass/context.ts';
import { PullQueue } from '../mirror/pass/queue.ts';
import { ReportedOnce, PullMonitor } from '../mirror/pass/events.ts';
import type { PassPolicy } from '../mirror/pass/context.ts';
import type { ServiceClient } from '../mirror/upstream/client.ts';
import { connect, type Installation, recallInstallation } from './installation.ts';
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

/** Everything that passes need, opened: the directory is locked until it is closed. */
export type Mirror = Awaited<ReturnType<typeof openMirror>>;

/**
 * Opens directory, state and service for passes.
 * @throws MirrorError `directory.*`, `state.unavailable`, `settings.invalid`
 */
export async function openMirror(settings: MirrorSettings, emit: EventSink, options: MirrorOptions = {}) {
  const { monitor = new PullMonitor(), outlastsPasses = false } = options;
  const store = await openMirrorStore(settings, options);
  let opened: Pick<State, 'close'> | null = null;
  try {
    for (const target of store.recovered) emit({ name: 'publish.recovered', target });
    for (const limit of store.limits) emit({ name: 'publish.fallback', directory: store.layout.root, limit });
    const { state, records } = await openRecalledState(settings, store, false, emit);
    opened = state;
    await noteRestored({ store, state }, records, Date.now(), (...scanned) => monitor.scanned(...scanned));
    const queue = new PullQueue(outlastsPasses, emit);
    let onPublished: PassContext['onPublished'] = () => {};
    const lasting = {
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
      /** Everything that a pass uses: read it at the start of each pass, as it changes with the settings. */
      get context(): PassContext {
        const { client: service, archiveLimits, beforePublish } = setups.present();
        return { ...lasting, onPublished, service, archiveLimits, beforePublish };
      },
      get policy(): PassPolicy {
        return setups.present().policy;
      },
      store,
      state,
      monitor,
      /** Switches to other settings. If they cannot be used, nothing changes. @throws MirrorError `settings.invalid` */
      take: async (next: MirrorSettings): Promise<void> =>
        setups.take(await setUp(next, state, emit, options, setups.present().installation)),
      closeReplaced: setups.closeReplaced,
      /** Sets the one listener that receives every new state from the next pass on, once it is durable and visible. */
      onPublished: (listener: typeof onPublished): void => {
        onPublished = listener;
      },
      /** Drops waiting pulls, and waits for running ones. */
      pullsEnded: (): Promise<void> => queue.drain(),
      /** Saves the facts that a pass found about the installation. */
      rememberInstallation: (): Promise<void> => setups.present().installation.remember(),
      close: async (): Promise<void> => {
        await queue.drain();
        await setups.closeReplaced();
        await setups.present().client.close();
        await setups.present().installation.remember();
        await state.close();
        await store.lock.release();
      },
    };
  } catch (error) {
    await opened?.close();
    await store.lock.release();
    throw error;
  }
}

/** The setup of the settings in force, and the clients of earlier ones, which pulls may still use. */
function createSetups(first: Awaited<ReturnType<typeof setUp>>, queue: PullQueue) {
  let present = first;
  let replaced: readonly ServiceClient[] = [];
  return {
    present: () => present,
    /** Calls off the pulls from a service that the settings no longer name: their data must not be published any more. */
    take: async (next: typeof first): Promise<void> => {
      const { client, installation } = present;
      present = next;
      replaced = [...replaced, client];
      if (next.installation !== installation)
        await Promise.all(replaced.map((former) => queue.leave(former)));
    },
    /** Closes the clients of earlier settings that no pull uses any more. Call it between passes. */
    closeReplaced: async (): Promise<void> => {
      const unused = replaced.filter((client) => !queue.isUsing(client));
      replaced = replaced.filter((client) => !unused.includes(client));
      await Promise.all(unused.map((client) => client.close()));
    },
  };
}

/**
 * Makes everything from the settings that may change while the daemon runs.
 * @param before the installation of the settings so far; two clients of the same one share its memory
 */
async function setUp(
  settings: MirrorSettings,
  state: State,
  emit: EventSink,
  { onProgress = () => {}, reportFirstAccept = false }: MirrorOptions,
  before: Installation | null,
) {
  await checkCommand(settings, 'afterPublish');
  await checkCommand(settings, 'beforePublish');
  const { baseUrl } = settings.service;
  const installation = before?.baseUrl === baseUrl ? before : await recallInstallation(state, baseUrl);
  const client = connect(settings, installation.memory, emit, {
    // Save a pause or a refused key immediately, as the pass may fail because of it, or be killed.
    onWarning: () => void installation.remember(),
    onProgress,
    reportFirstAccept,
  });
  return {
    installation,
    client,
    policy: policyOf(settings),
    archiveLimits: archiveLimitsOf(settings),
    beforePublish: publishGateOf(settings, onProgress),
  };
}
