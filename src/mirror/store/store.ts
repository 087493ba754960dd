import type { Difference } from './verify/drift.ts';
import type { Approval, Approvals } from '../plan/guard.ts';
import type { Lease } from './leases/lease.ts';
import type { Manifest } from './manifest.ts';
import type { ListedTarget, Published, RememberedTree } from '../plan/published.ts';
import type { Shard, ShareReport } from '../plan/shard.ts';
import type { DriftedTrees } from './verify/drifted-trees.ts';
import type { ExamineDepth } from './verify/examine.ts';
import type { Inventory, InventoryReading } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import type { PollAnswer, takePolls } from './requests.ts';
import type { PublishResult, Repair } from './publish/publish.ts';
import type { ShowStage } from './publish/show.ts';
import type { Stage } from './publish/stage.ts';

/** The mirror directory, locked by this process and writable. */
export interface MirrorStore {
  readonly layout: DirectoryLayout;
  /** The share of this instance; null where it has all. */
  readonly shard: Shard | null;
  /** Tells this directory apart from others, for stores that several share. */
  readonly id: string;
  /** Whether the file system swaps directories in one step. */
  readonly canExchange: boolean;
  /** What the file system cannot do, and what comes of that; each goes on where "the file system of X " ends. */
  readonly limits: readonly string[];
  /** Whether readers see whole trees alone; where not, publishing goes file by file. */
  readonly publishesWhole: boolean;
  /** The targets whose publish a crash had interrupted and that was completed at opening. */
  readonly recovered: readonly string[];
  /** Completes what errors interrupted, and leaves alone the stages that are in use; gives the targets that it completed. */
  readonly recover: (signal?: AbortSignal) => Promise<readonly string[]>;
  readonly published: () => Promise<readonly Published[]>;
  readonly inventory: () => Promise<InventoryReading>;
  /** Takes remembered summaries of trees, so that their manifests need not be read. */
  readonly recall: Inventory['recall'];
  /** The summary to remember of a tree that was just published with this manifest; null where its manifest file is gone. */
  readonly treeToRemember: (path: string, manifest: Manifest) => Promise<RememberedTree | null>;
  /** The targets of the inventory that are gone with their manifests, and the problem with the inventory; null for none. */
  readonly lostTargets: () => Promise<{
    readonly lost: readonly ListedTarget[];
    readonly problem: string | null;
  }>;
  /** Makes the inventory name the published targets. @param awaited lost targets that are to stay in it */
  /** @param address of the service that they come from; left out, what is on record stays */
  readonly saveTargets: (awaited: readonly ListedTarget[], address?: string) => Promise<void>;
  /** The address of the service that was mirrored last; null where it is not on record. @throws MirrorError `disk.*` */
  readonly formerAddress: () => Promise<string | null>;
  readonly manifest: (path: string) => Promise<Manifest | null>;
  /**
   * How a published tree differs from a manifest; null when it is not there at all.
   * @param depth by `lstat` alone, or also by every byte
   */
  readonly examine: (
    path: string,
    manifest: Manifest,
    depth: ExamineDepth,
    signal: AbortSignal,
  ) => Promise<readonly Difference[] | null>;
  /** As `examine` by `lstat`, against the present manifest; `changing` when the target is published meanwhile. */
  readonly findDrift: (path: string, signal: AbortSignal) => Promise<readonly Difference[] | 'changing'>;
  /** The target that a path below the directory belongs to; null for none. */
  readonly targetOf: (path: string) => Promise<string | null>;
  /** The trees that are to be put right. */
  readonly drifted: DriftedTrees;
  readonly stage: (currentPath: string) => Promise<Stage>;
  /** See `showStage`. */
  readonly show: ShowStage;
  /** @param signal here and below: ends the wait for the lock on publishing, if somebody has it */
  readonly publish: (
    stage: Stage,
    path: string,
    manifest: Manifest,
    repair: Repair,
    signal?: AbortSignal,
  ) => Promise<PublishResult>;
  readonly move: (from: string, to: string, manifest: Manifest, signal?: AbortSignal) => Promise<void>;
  readonly retire: (path: string, signal?: AbortSignal) => Promise<void>;
  /**
   * Removes replaced trees that no reader needs any more, and what the history keeps no longer.
   * @param historyNowMs the time by which the history is judged, in milliseconds since the epoch
   * @returns what the history lost, as `<target>/<name>`
   */
  readonly sweep: (historyNowMs: number, signal?: AbortSignal) => Promise<readonly string[]>;
  /** The leases that publishing waits for. @throws MirrorError `disk.failed` */
  readonly leases: () => Promise<readonly Lease[]>;
  /** The targets, as below `mirror/`, that a person wants tried at once. */
  readonly retries: () => Promise<ReadonlySet<string>>;
  readonly withdrawRetries: (targets: Iterable<string>) => Promise<void>;
  /** Takes the wishes for a pass that stand: gives their ids, and whether any is new. @throws MirrorError `disk.*` */
  readonly takePolls: () => ReturnType<typeof takePolls>;
  /** Ends wishes with the answer for those who wait for one. @throws MirrorError `directory.*`, `disk.*` */
  readonly answerPolls: (ids: readonly string[], answer: PollAnswer) => Promise<void>;
  readonly approvals: () => Promise<Approvals>;
  readonly withdrawApprovals: (approvals: readonly Approval[]) => Promise<void>;
  /** Tells who asks in the directory how this instance's share stands. @throws MirrorError `directory.*`, `disk.*` */
  readonly saveShareReport: (report: ShareReport) => Promise<void>;
  readonly close: () => Promise<void>;
}
