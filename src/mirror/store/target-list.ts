import { createHash } from 'node:crypto';

import { z } from 'zod';

import { isTargetPath } from '../../lib/paths/file-name.ts';
import { isAhead, latestUntil } from '../../lib/time/wrong-clock.ts';
import { byCodeUnits } from './manifest.ts';
import { targetKey } from '../upstream/listing.ts';
import type { ListedTarget, Published } from '../plan/published.ts';
import { onDisk } from '../../lib/errors/disk-errors.ts';
import { replaceFile } from '../../lib/disk/durable.ts';
import { readHistory } from './history/history.ts';
import { type InventoryReading, manifestPaths } from './inventory.ts';
import type { IsOwn } from './shards/other-instances.ts';
import type { DirectoryLayout } from './layout.ts';
import { readManifest } from './manifest-file.ts';
import { readOwnFile } from '../../lib/disk/own-file.ts';

/**
 * The list of a directory's targets, `inventory.json` (manual, "On disk"): it tells that a target is missing of which neither the
 * tree nor the manifest is left. Backups bring it along.
 */
export interface TargetList {
  /** Milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** The address of the service that they came from, without anything secret; null where it is not on record. */
  readonly address: string | null;
  /** Sorted by path. */
  readonly targets: readonly ListedTarget[];
}

/** The thing where the list belongs. `problem`: a sentence without its end. */
export type TargetListFound =
  | { readonly kind: 'list'; readonly list: TargetList }
  | { readonly kind: 'missing' }
  | { readonly kind: 'damaged'; readonly problem: string };

const FORMAT = 1;

/** Room for a million targets. */
const MAX_LIST_BYTES = 512 * 1024 ** 2;

const listSchema = z.strictObject({
  format: z.literal(FORMAT),
  service: z.string().optional(),
  sha256: z.string(),
  targets: z.array(
    z.strictObject({
      branch: z.string().min(1),
      path: z.string().refine(isTargetPath),
      repository: z.string().min(1),
    }),
  ),
  written_at: z.iso.datetime(),
});

/** The part of the list that its digest covers: everything but the digest, with sorted keys and without any space. */
function bodyOf({ writtenAtMs, address, targets }: TargetList): Omit<z.infer<typeof listSchema>, 'sha256'> {
  return {
    format: FORMAT,
    ...(address === null ? {} : { service: address }),
    targets: targets.map(({ branch, path, repositoryId }) => ({ branch, path, repository: repositoryId })),
    written_at: new Date(writtenAtMs).toISOString(),
  };
}

function digestOf(list: TargetList): string {
  return createHash('sha256')
    .update(JSON.stringify(bodyOf(list)))
    .digest('hex');
}

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
  const { written_at: writtenAt, service = null, targets, sha256 } = parsed.data;
  const list: TargetList = {
    writtenAtMs: Date.parse(writtenAt),
    address: service,
    targets: targets.map(({ branch, path, repository }) => ({ path, repositoryId: repository, branch })),
  };
  if (digestOf(list) !== sha256) return { kind: 'damaged', problem: 'its checksum does not match' };
  return { kind: 'list', list };
}

const NO_LIST = { targets: [], address: null } as const;

/** The address of the service that was mirrored last; null where it is not on record. @throws MirrorError `disk.failed` */
export async function readFormerAddress(layout: DirectoryLayout): Promise<string | null> {
  const found = await onDisk('reading the inventory', () => readTargetList(layout));
  return found.kind === 'list' ? found.list.address : null;
}

/**
 * Makes the list name what is mirrored, if it does not already. Of several instances only one may do so at a time.
 * @param isOwn what is lost and another instance's stays in the list: that one says what becomes of it
 * @param known.awaited targets of the list that are lost and are to stay in it until they are back
 * @param known.address of the service that they come from; left out, what is on record stays
 * @param nowMs milliseconds since the epoch
 */
export async function writeTargetList(
  layout: DirectoryLayout,
  { published, others }: Pick<InventoryReading, 'published' | 'others'>,
  isOwn: IsOwn,
  { awaited, address }: { readonly awaited: readonly ListedTarget[]; readonly address?: string | undefined },
  nowMs: number,
): Promise<void> {
  const found = await readTargetList(layout);
  const { targets: before, address: formerAddress } = found.kind === 'list' ? found.list : NO_LIST;
  const presentAddress = address ?? formerAddress;
  const mirrored = [...published.map(listedTarget), ...others];
  const keys = new Set(mirrored.map(targetKey));
  const manifests = new Set(await manifestPaths(layout));
  // For a manifest that cannot be read now, only the list knows to which target its tree belongs.
  const kept = before.filter(({ path }) => manifests.has(path));
  const theirs = before.filter(({ repositoryId }) => !isOwn(repositoryId));
  const stillLost = [...awaited, ...theirs].filter((target) => !keys.has(targetKey(target)));
  const byPath = new Map([...stillLost, ...kept, ...mirrored].map((target) => [target.path, target]));
  const targets = [...byPath.values()].sort((a, b) => byCodeUnits(a.path, b.path));
  const isAsBefore = isSame(targets, before) && presentAddress === formerAddress;
  if (found.kind === 'list' && isAsBefore && !isAhead(nowMs, found.list.writtenAtMs)) return;
  const list = { writtenAtMs: nowMs, address: presentAddress, targets };
  const { format, ...rest } = bodyOf(list);
  const text = JSON.stringify({ format, sha256: digestOf(list), ...rest }, null, 1);
  await replaceFile(layout.targetList, `${text}\n`, layout.staging);
}

function listedTarget({ path, repository, branch }: Published): ListedTarget {
  return { path, repositoryId: repository.id, branch };
}

function isSame(one: readonly ListedTarget[], other: readonly ListedTarget[]): boolean {
  const isEqual = (target: ListedTarget, at: number): boolean =>
    target.path === other[at]?.path && targetKey(target) === targetKey(other[at]);
  return one.length === other.length && one.every(isEqual);
}

/**
 * The targets of the list that have no manifest and did not leave the mirror either: the same target is mirrored nowhere else, and
 * the history has nothing of it that left since the list was written. What was killed before it wrote the list loses nothing so.
 * @param isOwn those of other instances are for them to find
 * @param readInventory reads what is mirrored; asked only where a manifest is missing
 * @param nowMs milliseconds since the epoch
 */
export async function findLost(
  layout: DirectoryLayout,
  list: TargetList,
  isOwn: IsOwn,
  readInventory: () => Promise<Pick<InventoryReading, 'published' | 'others'>>,
  nowMs: number,
): Promise<readonly ListedTarget[]> {
  const manifests = new Set(await manifestPaths(layout));
  const missing = list.targets.filter(
    ({ path, repositoryId }) => !manifests.has(path) && isOwn(repositoryId),
  );
  if (missing.length === 0) return [];
  // A clock that was ahead does not tell since when.
  const departed = await departedSince(layout, latestUntil(nowMs, [list.writtenAtMs]));
  // After the history: what moves or is retired meanwhile is seen in one of them.
  const { published, others } = await readInventory();
  const mirrored = new Set([...published.map(listedTarget), ...others].map(targetKey));
  return missing.filter(
    (target) =>
      !mirrored.has(targetKey(target)) &&
      !departed.paths.has(target.path) &&
      !departed.keys.has(targetKey(target)),
  );
}

/**
 * The trees that were retired since a time, by their last paths and by the keys of their targets: a tree may have moved before
 * it was retired.
 * @param sinceMs milliseconds since the epoch
 */
async function departedSince(
  layout: DirectoryLayout,
  sinceMs: number,
): Promise<{ readonly paths: ReadonlySet<string>; readonly keys: ReadonlySet<string> }> {
  const paths = new Set<string>();
  const keys = new Set<string>();
  for (const { path, kind, atMs, manifest: file } of await readHistory(layout)) {
    if (kind !== 'retired' || atMs < sinceMs) continue;
    paths.add(path);
    const manifest = await readManifest(file);
    if (manifest !== null)
      keys.add(targetKey({ repositoryId: manifest.repository.id, branch: manifest.branch }));
  }
  return { paths, keys };
}
