import { publishesWhole } from './publish/publishing.ts';
import type { RetentionPolicy } from '../plan/retention.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { createActivity } from './publish/activity.ts';
import { prepareDirectory, usable } from './directory.ts';
import { examineFileSystem, type FileSystemWants, refuseMounts } from './probes.ts';
import { refuseForeignDirectory } from './first-start.ts';
import { examinePublished, findDrift, targetOf } from './verify/examine.ts';
import { createGate, removeLinked } from './publish/gate.ts';
import { createInventory, type Inventory, type InventoryReading } from './inventory.ts';
import { readLeases, surelyInForce } from './leases/lease-files.ts';
import { type DirectoryLayout, layoutOf, manifestPath } from './layout.ts';
import type { DirectoryLock } from '../../lib/disk/lock.ts';
import { readManifest } from './manifest-file.ts';
import { SharedFlush } from '../../lib/disk/shared-flush.ts';
import { bindNativeCalls, type NativeCalls } from '../../lib/native/file-calls.ts';
import type { PublishContext } from './publish/commit.ts';
import { createSerialQueue } from '../../lib/concurrency/serial-queue.ts';
import { publishStage } from './publish/publish.ts';
import { moveTree, retireTree } from './publish/relocate.ts';
import { recover } from './publish/recover.ts';
import {
  answerPolls,
  readApprovals,
  readRetries,
  removeApprovals,
  removeRetries,
  takePolls,
} from './requests.ts';
import type { Shard } from '../plan/shard.ts';
import { lockForWriting, withCommonLock } from './shards/directory-locks.ts';
import { type IsOwn, ownTreesIn } from './shards/other-instances.ts';
import { writeShareReport } from './shards/share-reports.ts';
import { showStage } from './publish/show.ts';
import { openStage, type Stage } from './publish/stage.ts';
import { sweep } from './publish/sweep.ts';
import { findLost, readFormerAddress, readTargetList, writeTargetList } from './target-list.ts';
import { identify } from './identity.ts';
import type { MirrorStore } from './store.ts';

/** How a store is opened. */
export interface StoreOptions
  extends Pick<FileSystemWants, 'publish'>, Partial<Pick<FileSystemWants, 'nameTwins'>> {
  readonly directory: string;
  /** The share of this instance, among several; left out where it has all. */
  readonly shard?: Shard;
  /** How long a replaced tree stays whole, in milliseconds. */
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
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
  const layout = layoutOf(options.directory, options.shard);
  const native = bindNativeCalls();
  await usable(layout.root, () => refuseForeignDirectory(layout, options.adopt === true));
  // Before anything is made there: what is made below a mount point stays there.
  await usable(layout.root, () => refuseMounts(layout));
  await prepareDirectory(layout, options.publish === 'link');
  const lock = await usable(layout.root, () => lockForWriting(layout, options.shard ?? null, native));
  try {
    return await storeIn(await publishContext(options, layout, native, lock), options, lock);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Recovers from what a crash left in a directory that is locked, and gives the store that is there then. */
async function storeIn(
  context: PublishContext,
  options: StoreOptions,
  lock: DirectoryLock,
): Promise<MirrorStore> {
  const { layout, native } = context;
  const onBytes = options.onProgress ?? (() => {});
  const recovered = await recover(context);
  const chooseOwn = ownTreesIn(layout, options.shard ?? null);
  const inventory = createInventory(layout, { linked: context.linked, chooseOwn });
  const { id, drifted } = await withCommonLock(layout, native, () =>
    identify(context, inventory, options.onScanned),
  );
  return {
    layout,
    shard: options.shard ?? null,
    id,
    drifted,
    canExchange: context.canExchange,
    limits: context.fileSystem.limits,
    publishesWhole: publishesWhole(context),
    recovered,
    recover: (signal) => recover(context, signal),
    published: async () => (await inventory.read()).published,
    inventory: () => readForPass(lock, inventory),
    recall: inventory.recall,
    treeToRemember: inventory.note,
    manifest: (path) => onDisk('reading a manifest', () => readManifest(manifestPath(layout, path))),
    examine: async (path, { files }, depth, signal) => {
      const { isGone, differences } = await examinePublished(layout, path, files, { depth, signal, onBytes });
      return isGone ? null : differences;
    },
    ...driftOf(context, inventory),
    stage: (currentPath) => stageFor(context, currentPath, onBytes),
    show: (...args) => showStage(context.gate, ...args),
    ...changesOf(context),
    sweep: (historyNowMs, signal) => sweep(context, options, historyNowMs, signal),
    leases: () =>
      onDisk('reading the leases', async () => surelyInForce(await readLeases(layout, options.now()))),
    ...targetsOf(context, inventory, chooseOwn),
    ...notesOf(layout, lock),
    close: lock.release,
  };
}

async function stageFor(
  context: PublishContext,
  currentPath: string,
  onProgress: () => void,
): Promise<Stage> {
  await context.checkDirectory();
  return openStage(context.layout, currentPath, {
    onProgress,
    removeLinked: (remove) => removeLinked(context.gate, remove),
    inUse: context.inUse,
    flushMark: context.flush.mark(),
    native: context.native,
    timeStepMs: context.fileSystem.facts.timeStepMs ?? 1,
  });
}

/** The part of a store that changes what is published. */
function changesOf(context: PublishContext): Pick<MirrorStore, 'publish' | 'move' | 'retire'> {
  return {
    publish: (stage, path, manifest, repair, signal) =>
      throughGate(context, () => publishStage(context, stage, path, manifest, repair), signal),
    move: (from, to, manifest, signal) =>
      throughGate(context, () => moveTree(context, from, to, manifest), signal),
    retire: (path, signal) => throughGate(context, () => retireTree(context, path), signal),
  };
}

/** The part of a store that finds what differs from its manifest; what other instances mirror is theirs to look after. */
function driftOf(context: PublishContext, inventory: Inventory): Pick<MirrorStore, 'targetOf' | 'findDrift'> {
  return {
    targetOf: async (path) => {
      const target = await targetOf(context, path);
      return target === null || inventory.isOthers(target) ? null : target;
    },
    findDrift: (path, signal) => findDrift(context, path, signal),
  };
}

/** The part of a store that keeps notes of people, for people and for the next process: wishes and approvals. */
function notesOf(
  layout: DirectoryLayout,
  lock: DirectoryLock,
): Pick<
  MirrorStore,
  | 'retries'
  | 'withdrawRetries'
  | 'takePolls'
  | 'answerPolls'
  | 'approvals'
  | 'withdrawApprovals'
  | 'saveShareReport'
> {
  return {
    saveShareReport: async (report) => {
      await lock.check();
      await writeShareReport(layout, report);
    },
    retries: () => readRetries(layout),
    withdrawRetries: async (targets) => {
      await lock.check();
      await removeRetries(layout, targets);
    },
    takePolls: () => takePolls(layout),
    answerPolls: async (ids, answer) => {
      await lock.check();
      await answerPolls(layout, ids, answer);
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
  { layout, native, checkDirectory, now }: PublishContext,
  inventory: Inventory,
  chooseOwn: () => Promise<IsOwn>,
): Pick<MirrorStore, 'lostTargets' | 'saveTargets' | 'formerAddress'> {
  return {
    lostTargets: () =>
      onDisk('reading the inventory', async () => {
        const found = await readTargetList(layout);
        const lost =
          found.kind === 'list'
            ? await findLost(layout, found.list, await chooseOwn(), () => inventory.read(), now())
            : [];
        return { lost, problem: found.kind === 'damaged' ? found.problem : null };
      }),
    formerAddress: () => readFormerAddress(layout),
    saveTargets: async (awaited, address) => {
      await checkDirectory();
      await onDisk('writing the inventory', () =>
        withCommonLock(layout, native, async () =>
          writeTargetList(layout, await inventory.read(), await chooseOwn(), { awaited, address }, now()),
        ),
      );
    },
  };
}

/** Reads the published targets in the directory that was locked. */
async function readForPass(lock: DirectoryLock, inventory: Inventory): Promise<InventoryReading> {
  await lock.check();
  return inventory.read();
}

/** Changes what is published, in the directory that was locked. */
async function throughGate<T>(
  { gate, checkDirectory }: PublishContext,
  step: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await checkDirectory();
  return gate.pass(step, signal);
}

async function publishContext(
  { publish, nameTwins = 'refuse', retention, readerGraceMs, now, gatePatienceMs }: StoreOptions,
  layout: DirectoryLayout,
  native: NativeCalls,
  lock: DirectoryLock,
): Promise<PublishContext> {
  const fileSystem = await usable(layout.root, () =>
    examineFileSystem(layout, native, { publish, nameTwins }),
  );
  return {
    layout,
    native,
    mode: publish,
    canExchange: fileSystem.facts.canExchange,
    fileSystem,
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
    checkDirectory: lock.check,
    trashUntilMs: () => now() + readerGraceMs,
  };
}
