import { hash } from 'node:crypto';
import { readdir, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { ensureFolder, replaceFile } from '../../lib/disk/durable.ts';
import type { DirectoryLock } from '../../lib/disk/lock.ts';
import { readOwnDocument, readOwnText } from '../../lib/disk/own-file.ts';
import { onDisk, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { isAhead, latestUntil } from '../../lib/time/wrong-clock.ts';
import { type Approval, type Approvals, approvalSchema } from '../plan/guard.ts';
import { type ListedTarget, treeKey } from '../plan/record.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import { readHistory } from './history/history.ts';
import type { MirrorStore } from './disk.ts';
import { type InventoryReading, manifestPaths } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import { byCodeUnits } from './manifest.ts';
import { refuseLinks } from './published-tree.ts';
import { otherInstances, withCommonLock } from './shards.ts';

/**
 * The list of a directory's targets, `inventory.json` (manual, "On disk"). It reveals a missing target even if both tree and
 * manifest are gone. Backups include it.
 */
export interface TargetList {
  /** If `missing` or `damaged`, it names nothing. */
  readonly state: 'ok' | 'missing' | 'damaged';
  /** Milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** The address of the service that they came from, without anything secret; null if it is not on record. */
  readonly address: string | null;
  /** Sorted by path. */
  readonly targets: readonly ListedTarget[];
}

/** Room for a million targets. */
const MAX_LIST_BYTES = 512 * 1024 ** 2;

const listSchema = z.object({
  format: z.literal(1),
  // Earlier versions wrote a slash after an address without a path.
  service: z
    .string()
    .transform((address) => address.replace(/\/$/, ''))
    .optional(),
  targets: z.array(
    z.object({
      branch: z.string().min(1),
      path: z.string().refine(isTargetPath),
      repository: z.string().min(1),
    }),
  ),
  written_at: z.iso.datetime(),
});

/** Reads the list, which anyone who can write to the directory or a backup may have written. @throws MirrorError `disk.*` */
export async function readTargetList(layout: DirectoryLayout): Promise<TargetList> {
  const nothing = { writtenAtMs: 0, address: null, targets: [] };
  const text = await onDisk('reading the inventory', () => readOwnText(layout.targetList, MAX_LIST_BYTES));
  if (text === null) return { state: 'missing', ...nothing };
  try {
    const { written_at: writtenAt, service = null, targets } = listSchema.parse(JSON.parse(text));
    return {
      state: 'ok',
      writtenAtMs: Date.parse(writtenAt),
      address: service,
      targets: targets.map(({ branch, path, repository }) => ({ path, repositoryId: repository, branch })),
    };
  } catch {
    return { state: 'damaged', ...nothing };
  }
}

/**
 * The targets that the list must name: all mirrored ones, lost ones that may come back, and those whose manifest cannot be
 * read now. Lost targets of other instances stay, too: those instances decide about them.
 * @param before the targets that it names now; empty if there is no list
 * @param reading everything that is mirrored
 * @param awaited lost targets that stay in the list until they are back
 * @returns sorted by path
 */
function targetsToList(
  before: readonly ListedTarget[],
  { paths, published, others, isOwn }: InventoryReading,
  awaited: readonly ListedTarget[],
): readonly ListedTarget[] {
  const mirrored = [...published, ...others].map(({ path, repository, branch }) => ({
    path,
    repositoryId: repository.id,
    branch,
  }));
  const keys = new Set(mirrored.map(targetKey));
  const theirs = before.filter(({ repositoryId }) => !isOwn(repositoryId));
  const lost = [...awaited, ...theirs].filter((target) => !keys.has(targetKey(target)));
  const present = new Set(paths);
  const kept = before.filter(({ path }) => present.has(path));
  const byPath = new Map([...lost, ...kept, ...mirrored].map((target) => [target.path, target]));
  return [...byPath.values()].sort((a, b) => byCodeUnits(a.path, b.path));
}

/**
 * Updates the list to name what is mirrored, if it does not already.
 * @param awaited lost targets that stay in it
 * @param address of the service that they come from; if left out, the one on record stays
 * @throws MirrorError `directory.*`, `disk.failed`
 */
export async function saveTargets(
  { layout, native, lock, inventory, now }: MirrorStore,
  awaited: readonly ListedTarget[],
  address?: string,
): Promise<void> {
  await lock.check();
  const save = async (): Promise<void> => {
    const before = await readTargetList(layout);
    const service = address ?? before.address;
    const targets = targetsToList(before.targets, await inventory.read(), awaited);
    const isSame = before.address === service && isDeepStrictEqual(before.targets, targets);
    // A time in the future does not show since when the targets are there.
    if (before.state === 'ok' && isSame && !isAhead(now(), before.writtenAtMs)) return;
    const list: z.input<typeof listSchema> = {
      format: 1,
      ...(service === null ? {} : { service }),
      targets: targets.map(({ branch, path, repositoryId }) => ({ branch, path, repository: repositoryId })),
      written_at: new Date(now()).toISOString(),
    };
    await replaceFile(layout.targetList, `${JSON.stringify(list, null, 1)}\n`, layout.staging);
  };
  await onDisk('writing the inventory', () => withCommonLock(layout, native, save));
}

/** The findings of the list about a directory. */
export interface ListCheck {
  /** If the list is `missing` or `damaged`, lost targets cannot be detected. */
  readonly inventory: TargetList['state'];
  /** The problem with a damaged list, as a sentence without its full stop; null if it is not damaged. */
  readonly inventoryProblem: string | null;
  /** The listed targets that are gone with their manifests. */
  readonly lost: readonly ListedTarget[];
}

/** Reads the list, and finds which of its targets are lost. @throws MirrorError `disk.failed` */
export async function checkTargetList(
  store: Pick<MirrorStore, 'layout' | 'inventory' | 'now'>,
): Promise<ListCheck> {
  const list = await readTargetList(store.layout);
  const problem = list.state === 'damaged' ? 'it is not a list of targets as this program writes it' : null;
  return { inventory: list.state, inventoryProblem: problem, lost: await findLost(store, list) };
}

/**
 * The listed targets that have no manifest and did not leave the mirror either: the same target is not mirrored elsewhere, and the
 * history has no tree of it from after the list was written. Other instances find their own lost targets.
 */
async function findLost(
  { layout, inventory, now }: Pick<MirrorStore, 'layout' | 'inventory' | 'now'>,
  list: TargetList,
): Promise<ListedTarget[]> {
  const present = new Set(await manifestPaths(layout));
  const missing = list.targets.filter(({ path }) => !present.has(path));
  if (missing.length === 0) return [];
  // Read after the manifests: a target that moves now is seen in one of its two places.
  const { published, others, isOwn } = await inventory.read();
  const mirrored = new Set([...published, ...others].map(treeKey));
  // A clock that was ahead does not show since when.
  const sinceMs = latestUntil(now(), [list.writtenAtMs]);
  const lost: ListedTarget[] = [];
  for (const target of missing) {
    if (!isOwn(target.repositoryId) || mirrored.has(targetKey(target))) continue;
    const left = await readHistory(layout, target.path);
    if (!left.some(({ kind, atMs }) => kind === 'retired' && atMs >= sinceMs)) lost.push(target);
  }
  return lost;
}

/** Room for the names of a repository and a branch. */
const MAX_APPROVAL_BYTES = 64 * 1024;

/**
 * The file of an approval: a target may have characters that file names must not have. An operator may give one while the daemon runs, also
 * from another container or machine. A malformed or unfinished file approves nothing.
 */
function approvalFile({ approvals }: DirectoryLayout, target: TargetId): string {
  return join(approvals, `${hash('sha256', targetKey(target))}.json`);
}

/** Approves a held deletion. @throws MirrorError `disk.*` */
export async function writeApproval(layout: DirectoryLayout, approval: Approval): Promise<void> {
  const { root, approvals } = layout;
  await onDisk('writing an approval', async () => {
    await refuseLinks(layout, [relative(root, approvals)]);
    await ensureFolder(approvals);
    await replaceFile(approvalFile(layout, approval.target), `${JSON.stringify(approval)}\n`, approvals);
  });
}

/** Reads all approvals. @throws MirrorError `disk.failed` */
export function readApprovals(layout: DirectoryLayout): Promise<Approvals> {
  return onDisk('reading approvals', async () => {
    const found = new Map<string, Approval>();
    for (const name of (await unlessMissing(readdir(layout.approvals))) ?? []) {
      const file = join(layout.approvals, name);
      const approval = await readOwnDocument(file, MAX_APPROVAL_BYTES, approvalSchema);
      // A file with another name is unfinished, and would never be removed.
      if (approval !== null && approvalFile(layout, approval.target) === file)
        found.set(targetKey(approval.target), approval);
    }
    return found;
  });
}

/** Removes approvals. @throws MirrorError `disk.*` */
export async function removeApprovals(layout: DirectoryLayout, used: readonly Approval[]): Promise<void> {
  await onDisk('removing approvals', async () => {
    for (const { target } of used) await rm(approvalFile(layout, target), { force: true });
  });
}

/** The report of an instance with a share after each pass. Times in milliseconds since the epoch. */
export const shareReportSchema = z.object({
  index: z.int().min(1),
  count: z.int().min(1),
  /** Identifies the directory: the same for all that share one. */
  directoryId: z.string(),
  host: z.string(),
  writtenAtMs: z.number(),
  /** Why the last pass failed as a whole, in one sentence; null if it did not. */
  failure: z.string().nullable(),
  maxStalenessMs: z.number(),
  /** How many targets it mirrors, or will mirror. */
  targets: z.int().min(0),
  /** How many of them were not well. */
  notWell: z.int().min(0),
  /** The earliest time at which one of its targets was last verified; null if it has none, or one was never verified. */
  oldestVerifiedAtMs: z.number().nullable(),
});
export type ShareReport = Readonly<z.infer<typeof shareReportSchema>>;

const MAX_REPORT_BYTES = 64 * 1024;

/** Writes the report on this instance's share, for every process that reads the directory. @throws MirrorError `directory.*`, `disk.*` */
export async function writeShareReport(
  { layout, lock }: { readonly layout: DirectoryLayout; readonly lock: DirectoryLock },
  report: ShareReport,
): Promise<void> {
  await lock.check();
  await onDisk('writing the report of this shard', () =>
    replaceFile(layout.shareReport, `${JSON.stringify(report)}\n`, layout.staging),
  );
}

/** Reads the reports of the instances that share a directory. A malformed report counts as none. */
export async function readShareReports(layout: DirectoryLayout): Promise<ShareReport[]> {
  const reports: ShareReport[] = [];
  for (const { shareReport } of [layout, ...(await otherInstances(layout))]) {
    const report = await readOwnDocument(shareReport, MAX_REPORT_BYTES, shareReportSchema).catch(() => null);
    // An instance may not have reported yet.
    if (report !== null) reports.push(report);
  }
  return reports;
}
