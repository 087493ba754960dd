import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { replaceFile } from '../../lib/disk/durable.ts';
import { readOwnFile } from '../../lib/disk/own-file.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { isAhead, latestUntil } from '../../lib/time/wrong-clock.ts';
import type { ListedTarget, Published } from '../plan/record.ts';
import { targetKey } from '../upstream/listing.ts';
import { readHistory } from './history/history.ts';
import type { MirrorStore } from './disk.ts';
import { type InventoryReading, manifestPaths } from './inventory.ts';
import type { DirectoryLayout } from './layout.ts';
import { byCodeUnits } from './manifest.ts';
import { type IsOwn, ownTreesIn, withCommonLock } from './shards.ts';

/**
 * The list of a directory's targets, `inventory.json` (manual, "On disk"). It shows that a target is missing when neither its tree nor its
 * manifest is left. Backups bring it along.
 */
export interface TargetList {
  /** Milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** The address of the service that they came from, without anything secret; null where it is not on record. */
  readonly address: string | null;
  /** Sorted by path. */
  readonly targets: readonly ListedTarget[];
}

/** The file where the list belongs. `problem`: a sentence without its end. */
export type TargetListFound =
  | { readonly kind: 'list'; readonly list: TargetList }
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged'; readonly problem: string };

const FORMAT = 1;

/** Room for a million targets. */
const MAX_LIST_BYTES = 512 * 1024 ** 2;

const listSchema = z.object({
  format: z.literal(FORMAT),
  service: z.string().optional(),
  targets: z.array(
    z.object({
      branch: z.string().min(1),
      path: z.string().refine(isTargetPath),
      repository: z.string().min(1),
    }),
  ),
  written_at: z.iso.datetime(),
});

/** Reads the list, which anyone who can write to the directory or a backup may have written. @throws system errors of reading */
export async function readTargetList(layout: DirectoryLayout): Promise<TargetListFound> {
  const found = await readOwnFile(layout.targetList, MAX_LIST_BYTES);
  if (found.kind === 'missing') return { kind: 'missing' };
  if (found.kind !== 'text')
    return { kind: 'damaged', problem: 'it is not a plain file, or it is too large' };
  let json: unknown;
  try {
    json = JSON.parse(found.text);
  } catch {
    return { kind: 'damaged', problem: 'it is not JSON' };
  }
  const parsed = listSchema.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = JSON.stringify(issue?.path.join('.') ?? '');
    return { kind: 'damaged', problem: `its field ${field} is not what an inventory has there` };
  }
  const { written_at: writtenAt, service = null, targets } = parsed.data;
  const list: TargetList = {
    writtenAtMs: Date.parse(writtenAt),
    address: service,
    targets: targets.map(({ branch, path, repository }) => ({ path, repositoryId: repository, branch })),
  };
  return { kind: 'list', list };
}

/** The address of the service that was mirrored last; null where it is not on record. @throws MirrorError `disk.failed` */
export async function readFormerAddress(layout: DirectoryLayout): Promise<string | null> {
  const found = await onDisk('reading the inventory', () => readTargetList(layout));
  return found.kind === 'list' ? found.list.address : null;
}

/**
 * The targets that the list is to name: all that are mirrored, those that are lost and may come back, and those whose manifest cannot be
 * read now.
 * @param before the list as it is; null for none
 * @param reading everything that is mirrored
 * @param awaited lost targets that are to stay in the list until they are back
 * @param isOwn lost targets of other instances stay, too: those instances find out what becomes of them
 * @returns sorted by path
 */
function targetsToList(
  before: TargetList | null,
  { paths, published, others }: InventoryReading,
  awaited: readonly ListedTarget[],
  isOwn: IsOwn,
): readonly ListedTarget[] {
  const ofOthers = others.map(({ path, repositoryId, branch }) => ({ path, repositoryId, branch }));
  const mirrored = [...published.map(listedTarget), ...ofOthers];
  const keys = new Set(mirrored.map(targetKey));
  const listed = before?.targets ?? [];
  const theirs = listed.filter(({ repositoryId }) => !isOwn(repositoryId));
  const lost = [...awaited, ...theirs].filter((target) => !keys.has(targetKey(target)));
  const present = new Set(paths);
  const kept = listed.filter(({ path }) => present.has(path));
  const byPath = new Map([...lost, ...kept, ...mirrored].map((target) => [target.path, target]));
  return [...byPath.values()].sort((a, b) => byCodeUnits(a.path, b.path));
}

/**
 * Makes the list name what is mirrored, if it does not already. Of several instances only one may do so at a time.
 * @param awaited,isOwn see {@link targetsToList}
 * @param address of the service that the targets come from; left out, the one on record stays
 * @param nowMs milliseconds since the epoch
 * @throws system errors
 */
async function writeTargetList(
  layout: DirectoryLayout,
  reading: InventoryReading,
  isOwn: IsOwn,
  { awaited, address }: { readonly awaited: readonly ListedTarget[]; readonly address?: string | undefined },
  nowMs: number,
): Promise<void> {
  const found = await readTargetList(layout);
  const before = found.kind === 'list' ? found.list : null;
  const service = address ?? before?.address ?? null;
  const targets = targetsToList(before, reading, awaited, isOwn);
  const isSame = before?.address === service && isDeepStrictEqual(before.targets, targets);
  // One from the future does not tell since when its targets are there.
  if (isSame && !isAhead(nowMs, before.writtenAtMs)) return;
  const list: z.input<typeof listSchema> = {
    format: FORMAT,
    ...(service === null ? {} : { service }),
    targets: targets.map(({ branch, path, repositoryId }) => ({ branch, path, repository: repositoryId })),
    written_at: new Date(nowMs).toISOString(),
  };
  await replaceFile(layout.targetList, `${JSON.stringify(list, null, 1)}\n`, layout.staging);
}

/**
 * The targets of the list that have no manifest and did not leave the mirror either: the same target is mirrored nowhere else, and the
 * history has nothing of it that left since the list was written.
 * @param isOwn lost targets of other instances are for those to find
 * @param readInventory reads what is mirrored; called only where a manifest is missing
 * @param nowMs milliseconds since the epoch
 * @throws MirrorError `disk.failed`
 */
export async function findLost(
  layout: DirectoryLayout,
  list: TargetList,
  isOwn: IsOwn,
  readInventory: () => Promise<Pick<InventoryReading, 'published' | 'others'>>,
  nowMs: number,
): Promise<readonly ListedTarget[]> {
  const present = new Set(await manifestPaths(layout));
  const missing = list.targets.filter(({ path, repositoryId }) => !present.has(path) && isOwn(repositoryId));
  if (missing.length === 0) return [];
  // After the look at the manifests: a target that is moved now is seen in one of its two places.
  const { published, others } = await readInventory();
  const mirrored = new Set([...published.map(listedTarget), ...others].map(targetKey));
  // A clock that was ahead does not tell since when.
  const sinceMs = latestUntil(nowMs, [list.writtenAtMs]);
  const lost: ListedTarget[] = [];
  for (const target of missing) {
    if (mirrored.has(targetKey(target))) continue;
    const left = await readHistory(layout, target.path);
    const hasLeft = left.some(
      ({ path, kind, atMs }) => path === target.path && kind === 'retired' && atMs >= sinceMs,
    );
    if (!hasLeft) lost.push(target);
  }
  return lost;
}

function listedTarget({ path, repository, branch }: Published): ListedTarget {
  return { path, repositoryId: repository.id, branch };
}

/**
 * Finds the targets of the list that are gone with their manifests, and the problem with the list; null for none.
 * @throws MirrorError `disk.failed`
 */
export function lostTargets({
  layout,
  shard,
  inventory,
  now,
}: Pick<MirrorStore, 'layout' | 'shard' | 'inventory' | 'now'>): Promise<{
  readonly lost: readonly ListedTarget[];
  readonly problem: string | null;
}> {
  return onDisk('reading the inventory', async () => {
    const found = await readTargetList(layout);
    if (found.kind !== 'list') return { lost: [], problem: found.kind === 'damaged' ? found.problem : null };
    const isOwn = await ownTreesIn(layout, shard)();
    return { lost: await findLost(layout, found.list, isOwn, inventory.read, now()), problem: null };
  });
}

/**
 * Makes the list name the published targets.
 * @param awaited lost targets that are to stay in it
 * @param address of the service that they come from; left out, what is on record stays
 * @throws MirrorError `directory.*`, `disk.failed`
 */
export async function saveTargets(
  { layout, native, lock, shard, inventory, now }: MirrorStore,
  awaited: readonly ListedTarget[],
  address?: string,
): Promise<void> {
  await lock.check();
  await onDisk('writing the inventory', () =>
    withCommonLock(layout, native, async () => {
      const isOwn = await ownTreesIn(layout, shard)();
      return writeTargetList(layout, await inventory.read(), isOwn, { awaited, address }, now());
    }),
  );
}
