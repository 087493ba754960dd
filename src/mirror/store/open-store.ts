import { type PublishMode, publishesWhole } from './publish/publishing.ts';
import type { RetentionPolicy } from '../plan/retention.ts';
import type { Published } from '../plan/targets.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { createActivity } from './publish/activity.ts';
import { readApprovals, removeApprovals } from './approvals.ts';
import {
  exchangeMissing,
  knownDirectoryId,
  makeDirectoryId,
  prepareDirectory,
  probeExchange,
  usable,
} from './directory.ts';
import { refuseForeignDirectory } from './first-start.ts';
import { DriftedTrees, readDriftNote, writeDriftNote } from './verify/drifted-trees.ts';
import { examineAgainst, findAllDrifted, findDrift, targetOf } from './verify/find-drift.ts';
import { createGate, removeLinked } from './publish/gate.ts';
import { removeHeldFiles, writeHeldFiles } from './held-files.ts';
import { createInventory, type Inventory, type InventoryReading } from './inventory.ts';
import { readLeases, surelyInForce } from './leases/lease-files.ts';
import { type DirectoryLayout, layoutOf, manifestPath } from './layout.ts';
import { type DirectoryLock, lockDirectory } from '../../lib/disk/lock.ts';
import { readManifest } from './manifest-file.ts';
import { SharedFlush } from '../../lib/disk/shared-flush.ts';
import { bindNativeCalls, type NativeCalls } from '../../lib/native/file-calls.ts';
import type { PublishContext } from './publish/commit.ts';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { publishStage } from './publish/publish.ts';
import { moveTree, retireTree } from './publish/relocate.ts';
import { recover } from './publish/recover.ts';
import { readRetries, removeRetries } from './retries.ts';
import { showStage } from './publish/show.ts';
import { openStage } from './publish/stage.ts';
import { sweep } from './publish/sweep.ts';
import { findLost, readTargetList, writeTargetList } from './target-list.ts';
import { createDedupCandidates, type DedupCandidates } from './publish/dedup.ts';
import { removeUnlinkedTrees } from './unlinked-trees.ts';
import type { MirrorStore } from './store.ts';

/** How equal contents are shared, by the value of the setting `dedup`. */
const SHARING = { auto: 'blocks-or-links', reflink: 'blocks', off: 'none' } as const;

/** How a store is opened. */
export interface StoreOptions {
  readonly directory: string;
  readonly publish: PublishMode;
  /** How long a replaced tree stays whole, in milliseconds. */
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
  /** How files that several targets have in common are stored; each for itself unless told. */
  readonly dedup?: keyof typeof SHARING;
  /** Whether a first mirror may be made beside what is there already; not unless told. */
  readonly adopt?: boolean;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** How long the lock on publishing is waited for, in milliseconds; a minute unless told. */
  readonly gatePatienceMs?: number;
  /** Receives the progress of a look at all trees, which a directory that was copied or restored needs. */
  readonly onScanned?: (doneTargets: number, targets: number) => void;
  /** Called whenever bytes were read or written for a pass. */
  readonly onProgress?: () => void;
}

/**
 * Opens the directory for writing: makes its folders, takes its lock, and recovers from what a crash left.
 * @throws MirrorError `directory.unusable`, `directory.locked`
 */
export async function openStore(options: StoreOptions): Promise<MirrorStore> {
  const layout = layoutOf(options.directory);
  const native = bindNativeCalls();
  const onBytes = options.onProgress ?? (() => {});
  await usable(layout.root, () => refuseForeignDirectory(layout, options.adopt === true));
  await prepareDirectory(layout, options.publish === 'link');
  const lock = await usable(layout.root, () => lockDirectory(layout.lockFile, native));
  try {
    const context = await publishContext(options, layout, native, lock);
    const recovered = await recover(context);
    const inventory = createInventory(layout, context.linked);
    const { id, drifted } = await identify(context, inventory, options.onScanned);
    await usable(layout.root, () => listTargetsOnce(context, inventory));
    return {
      layout,
      id,
      drifted,
      canExchange: context.canExchange,
      publishesWhole: publishesWhole(context),
      recovered,
      recover: (signal) => recover(context, signal),
      published: async () => (await inventory.read()).published,
      inventory: () => readForPass(lock, inventory),
      recall: inventory.recall,
      treeToRemember: inventory.note,
      manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
      examine: (path, manifest, depth, signal) =>
        examineAgainst(layout, path, manifest, { depth, signal, onBytes }),
      targetOf: (path) => targetOf(context, path),
      sharersOf: context.candidates.sharersOf,
      findDrift: (path, signal) => findDrift(context, path, signal),
      stage: async (currentPath) => {
        await lock.check();
        return openStage(layout, currentPath, {
          onProgress: onBytes,
          removeLinked: (remove) => removeLinked(context.gate, remove),
          candidates: unlessLeased(context),
          inUse: context.inUse,
          flushMark: context.flush.mark(),
        });
      },
      show: (...args) => showStage(context.gate, ...args),
      publish: (stage, path, manifest, repair, signal) =>
        throughGate(context, () => publishStage(context, stage, path, manifest, repair), signal),
      move: (from, to, manifest, signal) =>
        throughGate(context, () => moveTree(context, from, to, manifest), signal),
      retire: (path, signal) => throughGate(context, () => retireTree(context, path), signal),
      sweep: (historyNowMs, signal) => sweep(context, options, historyNowMs, signal),
      leases: () =>
        onDisk('reading the leases', async () => surelyInForce(await readLeases(layout, options.now()))),
      ...targetsOf(context, inventory),
      ...notesOf(layout, lock),
      close: lock.release,
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The part of a store that keeps notes for people and for the next process: held files, retries and approvals. */
function notesOf(
  layout: DirectoryLayout,
  lock: DirectoryLock,
): Pick<MirrorStore, 'noteHeldFiles' | 'retries' | 'withdrawRetries' | 'approvals' | 'withdrawApprovals'> {
  return {
    noteHeldFiles: async (target, paths) => {
      await lock.check();
      await (paths === null ? removeHeldFiles(layout, target) : writeHeldFiles(layout, target, paths));
    },
    retries: () => readRetries(layout),
    withdrawRetries: async (targets) => {
      await lock.check();
      await removeRetries(layout, targets);
    },
    approvals: () => readApprovals(layout),
    withdrawApprovals: async (approvals) => {
      await lock.check();
      await removeApprovals(layout, approvals);
    },
  };
}

/** The part of a store that keeps the list of targets: it finds lost ones, and writes the list anew. */
function targetsOf(
  { layout, checkDirectory, now }: PublishContext,
  inventory: Inventory,
): Pick<MirrorStore, 'lostTargets' | 'saveTargets'> {
  const published = async (): Promise<readonly Published[]> => (await inventory.read()).published;
  return {
    lostTargets: () =>
      onDisk('reading the inventory', async () => {
        const found = await readTargetList(layout);
        const lost = found.kind === 'list' ? await findLost(layout, found.list, published) : [];
        return { lost, problem: found.kind === 'damaged' ? found.problem : null };
      }),
    saveTargets: async (awaited) => {
      await checkDirectory();
      await onDisk('writing the inventory', async () =>
        writeTargetList(layout, await published(), awaited, now()),
      );
    },
  };
}

/** Makes the inventory of a directory that has targets, but was filled before there were inventories. */
async function listTargetsOnce({ layout, now }: PublishContext, inventory: Inventory): Promise<void> {
  if ((await readTargetList(layout)).kind !== 'missing') return;
  const { published } = await inventory.read();
  if (published.length > 0) await writeTargetList(layout, published, [], now());
}

/** No candidates while a lease holds: a link changes the inode of a file that someone wants to stay as it is. */
function unlessLeased({
  layout,
  candidates,
  now,
}: PublishContext): Pick<DedupCandidates, 'sharing' | 'candidatesOf'> {
  return {
    sharing: candidates.sharing,
    candidatesOf: async (contents) => {
      const { inForce } = await onDisk('reading the leases', () => readLeases(layout, now()));
      return inForce.length === 0 ? candidates.candidatesOf(contents) : contents.map(() => []);
    },
  };
}

/** Reads the published targets in the directory that was locked. */
async function readForPass(lock: DirectoryLock, inventory: Inventory): Promise<InventoryReading> {
  await lock.check();
  return inventory.read();
}

async function throughGate<T>(
  { gate, checkDirectory }: PublishContext,
  step: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await checkDirectory();
  return gate.pass(step, signal);
}

/**
 * Finds out which directory this is, and what in it is to be put right. A directory that was copied or restored is looked at as a
 * whole: a backup taken while something was published may hold a tree and a manifest that do not belong together.
 */
async function identify(
  context: PublishContext,
  inventory: Inventory,
  onScanned: StoreOptions['onScanned'],
): Promise<Pick<MirrorStore, 'id' | 'drifted'>> {
  const { layout } = context;
  const knownId = await usable(layout.root, () => knownDirectoryId(layout));
  // What says when replaced trees are to be removed did not come along.
  if (knownId === null) await usable(layout.root, () => removeUnlinkedTrees(layout));
  const noted = await usable(layout.root, () => readDriftNote(layout));
  const found =
    knownId === null ? await findAllDrifted(context, (await inventory.read()).published, onScanned) : [];
  const drifted = new DriftedTrees(layout, context.checkDirectory, [...noted, ...found]);
  await usable(layout.root, () => writeDriftNote(layout, drifted.paths()));
  return { id: knownId ?? (await usable(layout.root, () => makeDirectoryId(layout))), drifted };
}

async function publishContext(
  { publish, directory, retention, readerGraceMs, now, gatePatienceMs, dedup = 'off' }: StoreOptions,
  layout: DirectoryLayout,
  native: NativeCalls,
  lock: DirectoryLock,
): Promise<PublishContext> {
  const canExchange = await probeExchange(layout, native);
  if (!canExchange && publish === 'exchange') throw exchangeMissing(directory);
  return {
    layout,
    native,
    mode: publish,
    canExchange,
    flush: new SharedFlush(() => native.syncFileSystem(lock.fd)),
    keepsReplaced: retention.replaced.kind !== 'off',
    now,
    gate: createGate(layout, native, now, gatePatienceMs),
    exclusively: createSerialQueue().run,
    unrecovered: new Map(),
    linked: new Map(),
    searched: { atMs: null },
    inUse: new Set(),
    activity: createActivity(),
    candidates: createDedupCandidates(layout, SHARING[dedup]),
    checkDirectory: lock.check,
    trashUntilMs: () => now() + readerGraceMs,
  };
}
