import { lastLease, LeasedError, leasesInForce } from '../../mirror/store/leases.ts';
import { checkTargetList, saveTargets } from '../../mirror/store/target-list.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { EventSink } from '../../app/events.ts';
import { counted } from '../../lib/text/humanize.ts';
import { joinLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import type { MirrorStore } from '../../mirror/store/disk.ts';
import { runPass } from '../../mirror/pass/pass.ts';
import { openMirror, openMirrorStore } from '../../app/open-mirror.ts';
import { noteDrift, noteForRepair } from '../../app/drift-notes.ts';
import { openStateOf, refuseMissing } from '../../app/open-reader.ts';
import { linesOf } from '../frame/output.ts';
import type { CommandProgress } from './progress.ts';
import { letDaemonRepair } from '../read/verify-output.ts';
import { lockedByPid, repairFromDisk } from '../../mirror/store/verify/verify.ts';

/** The trees that were put right. */
export interface Repaired {
  /** From what of them was intact, and from the history. */
  readonly fromDisk: readonly string[];
  /** By a pass, which pulled them. */
  readonly pulled: readonly string[];
  /** Whether the inventory was damaged, and written anew. */
  readonly inventoryWritten: boolean;
}

/**
 * Puts published trees right: with what the disk has where that is enough, by a pass otherwise.
 * @param damaged paths of targets
 * @param needService gives the settings of the service, or throws what is missing of them; asked only when they are needed
 * @throws MirrorError `directory.locked`, `settings.invalid`, what ends a pass
 */
export async function repair(
  settings: SettingsFor<'directory'>,
  damaged: readonly string[],
  needService: () => SettingsFor<'service' | 'directory'>,
  progress: CommandProgress,
  signal: AbortSignal,
): Promise<Repaired> {
  const fromDisk: string[] = [];
  let inventoryWritten = false;
  const store = await openMirrorStore(settings);
  try {
    await refuseLeased(store);
    for (const path of damaged) {
      // What the disk refuses for one target, a pass may be able to do, or says why not.
      const isRepaired = await repairFromDisk(store, path, signal).catch(unlessLeased);
      signal.throwIfAborted();
      if (isRepaired) fromDisk.push(path);
    }
    await noteRepaired(settings, store, fromDisk, progress.sink);
    inventoryWritten = (await checkTargetList(store)).inventory === 'damaged';
    if (inventoryWritten) await saveTargets(store, []);
  } finally {
    await store.lock.release();
  }
  const rest = damaged.filter((path) => !fromDisk.includes(path));
  if (rest.length > 0) await pull(needService(), rest, progress, signal);
  return { fromDisk, pulled: rest, inventoryWritten };
}

/**
 * Refuses what cannot be repaired now, before it is read for long: while another program has the lock, or a lease holds.
 * @throws MirrorError `directory.*`, `publish.leased`
 */
export async function refuseRepair(settings: SettingsFor<'directory'>): Promise<void> {
  await refuseMissing(settings.directory);
  const store = await openMirrorStore(settings).catch((error: unknown) => leftToDaemon(settings, error));
  try {
    await refuseLeased(store);
  } finally {
    await store.lock.release();
  }
}

/** Beside a daemon, says how to let that do it. */
async function leftToDaemon(settings: SettingsFor<'directory'>, error: unknown): Promise<never> {
  const pid = await lockedByPid(layoutOf(settings.directory, settings.shard));
  if (!(error instanceof MirrorError) || error.code !== 'directory.locked' || pid === null) throw error;
  throw new MirrorError(error.code, error.message, {
    cause: error,
    hint: `${letDaemonRepair(pid)} Or stop it, repair, and start it again.`,
  });
}

async function refuseLeased(store: MirrorStore): Promise<void> {
  const lease = lastLease(await leasesInForce(store.layout, store.now()));
  if (lease !== null) throw new LeasedError(lease);
}

function unlessLeased(error: unknown): false {
  if (error instanceof LeasedError) throw error;
  return false;
}

/** Notes that trees are right again: a daemon would find that, but none runs. */
async function noteRepaired(
  settings: SettingsFor<'directory'>,
  store: MirrorStore,
  paths: readonly string[],
  emit: EventSink,
): Promise<void> {
  if (paths.length === 0) return;
  const state = await openStateOf(settings, store, false, emit);
  try {
    for (const path of paths) await noteDrift({ store, state }, path, null);
  } finally {
    await state.close();
  }
}

/** The differences of a tree that was verified, byte by byte. */
const BYTES = [{ path: '.', kind: 'modified', what: ['bytes'] }] as const;

async function pull(
  settings: SettingsFor<'service' | 'directory'>,
  paths: readonly string[],
  { sink, monitor }: CommandProgress,
  signal: AbortSignal,
): Promise<void> {
  const mirror = await openMirror(settings, sink, { monitor });
  try {
    // A target that is lost with its manifest is new to the plan, and has nothing to note.
    for (const path of paths) await noteForRepair(mirror, path, BYTES, Date.now());
    await runPass(mirror.context, mirror.policy, 'command', signal, 'all');
    await mirror.rememberInstallation();
  } finally {
    await mirror.close();
  }
}

/** The repaired trees, for a person. */
export function describeRepaired({ fromDisk, pulled, inventoryWritten }: Repaired): TerminalText {
  return joinLines(
    linesOf(
      fromDisk.length > 0 &&
        `${counted(fromDisk.length, 'target')} put right from the disk: ${fromDisk.join(', ')}`,
      pulled.length > 0 && `${counted(pulled.length, 'target')} pulled: ${pulled.join(', ')}`,
      inventoryWritten && 'inventory.json was written anew',
    ),
  );
}
