import { hash } from 'node:crypto';
import { z } from 'zod';

import { type ApprovalMark, byCodeUnits, type ManifestFile, type TreeChanges } from '../store/manifest.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';

/** How much may be deleted at once without approval: a share, a number, or anything. */
export type DeletionLimit =
  | { readonly kind: 'share'; readonly percent: number }
  | { readonly kind: 'count'; readonly count: number }
  | { readonly kind: 'off' };

/** Whether a limit forbids so many deletions out of a total. */
export function exceedsLimit(limit: DeletionLimit, deletions: number, total: number): boolean {
  switch (limit.kind) {
    case 'off':
      return false;
    case 'count':
      return deletions > limit.count;
    case 'share':
      return deletions * 100 > total * limit.percent;
  }
}

/** How much may be deleted without approval. */
export interface GuardPolicy {
  /** The limit for targets that one pass may retire, out of all mirrored ones. */
  readonly targets: DeletionLimit;
  /** The limit for files of a target that one publish may delete. */
  readonly files: DeletionLimit;
}

/**
 * The subject of a held deletion. `target`: a whole target, gone together with too many others. `restored`: the same for one that was
 * restored from the history. `files`: files of a target that a new version lacks. `deselected`: only the mirroring of a target, which the
 * settings deselect with too many others. `moved`: this instance's copy of a target that another instance mirrors now.
 */
export const HELD_SUBJECTS = ['target', 'restored', 'files', 'deselected', 'moved'] as const;

/** A deletion that waits for approval. */
export interface HeldDeletion {
  readonly subject: (typeof HELD_SUBJECTS)[number];
  /** How many targets of the pass, or files of the target, would be deleted; for deselection, how many targets. */
  readonly deletions: number;
  readonly of: number;
  /** The digest of the paths that would be deleted: an approval covers exactly these. Null for a whole target. */
  readonly digest: string | null;
  /** The first files that would be deleted, sorted, at most {@link PATHS_SHOWN}; left out if a manifest lists them all. */
  readonly first?: readonly string[];
}

/** The most paths that are remembered and shown for a held deletion. */
export const PATHS_SHOWN = 100;

/** The longest name of a user who approves something, in characters. */
const LONGEST_USER = 256;

export const approvalSchema = z.object({
  target: z.object({ repositoryId: z.string(), branch: z.string() }),
  /** The approved deletion; `service` if the whole directory may mirror another service than before. */
  subject: z.enum([...HELD_SUBJECTS, 'service']),
  /** As in {@link HeldDeletion}. */
  digest: z.string().nullable(),
  /** The user who gave it. */
  approvedBy: z.string().max(LONGEST_USER).optional(),
  /** In milliseconds since the epoch, by the clock of the process that wrote it. */
  approvedAtMs: z.int().optional(),
  /** Whether `approvedBy` is only what the command said that asked the daemon. */
  isByWord: z.boolean().optional(),
});

/** An operator's approval of one deletion, valid once. */
export type Approval = Readonly<z.infer<typeof approvalSchema>>;

/** The mark that an approval leaves in the history; null for one that says neither when nor by whom it was given. */
export function markOf({ approvedBy, approvedAtMs, isByWord = false }: Approval): ApprovalMark | null {
  return approvedBy === undefined || approvedAtMs === undefined
    ? null
    : { approvedBy, approvedAtMs, isByWord };
}

/** Approvals by target. */
export type Approvals = ReadonlyMap<string, Approval>;

/** The approval of a held deletion; null if there is none, or one of another deletion. */
export function approvalOf(
  approvals: Approvals,
  target: TargetId,
  held: Pick<Approval, 'subject' | 'digest'>,
): Approval | null {
  const approval = approvals.get(targetKey(target));
  if (approval === undefined || approval.digest !== held.digest) return null;
  const isSame = approval.subject === held.subject;
  return isSame || (approval.subject === 'restored' && held.subject === 'target') ? approval : null;
}

/** The facts needed to judge deletions that happen together. */
export interface GuardFacts {
  readonly policy: { readonly guard: Pick<GuardPolicy, 'targets'> };
  readonly approvals: Approvals;
  /** Holds of the previous pass, by target key. */
  readonly records: ReadonlyMap<string, { readonly held: HeldDeletion | null }>;
}

/**
 * Finds the targets to hold because a pass would retire, or the settings deselect, too many at once: a slip in a filter must not
 * stop a mirror. An approval lets only its own target through; any other stays held until it is back or the limit is raised.
 * @param total how many targets are mirrored, or were before
 */
export function holdTogether<T extends { readonly target: TargetId }>(
  subject: 'target' | 'deselected',
  deletions: readonly T[],
  total: number,
  { policy, approvals, records }: GuardFacts,
): ReadonlyMap<T, HeldDeletion> {
  const limit = policy.guard.targets;
  const isTooMuch = exceedsLimit(limit, deletions.length, total);
  const held = deletions.filter(({ target }) => {
    if (approvalOf(approvals, target, { subject, digest: null }) !== null) return false;
    const before = records.get(targetKey(target))?.held;
    return isTooMuch || (before?.subject === subject && exceedsLimit(limit, before.deletions, before.of));
  });
  const deletion = { subject, deletions: held.length, of: total, digest: null };
  return new Map(held.map((each) => [each, deletion]));
}

/** Targets with at most this many files are not guarded: half of them is one ordinary edit. */
const FEW_FILES = 5;

/**
 * The deletion that a new state of a target would cause, if it exceeds a limit; otherwise null. A moved file is not deleted: its bytes
 * are still there.
 * @param changes between the two states
 */
export function heldFiles(
  before: readonly ManifestFile[],
  after: readonly ManifestFile[],
  changes: TreeChanges,
  limit: DeletionLimit,
): HeldDeletion | null {
  if (before.length <= FEW_FILES || !exceedsLimit(limit, changes.removed.length, before.length)) return null;
  const [removed, added] = [new Set(changes.removed), new Set(changes.added)];
  const moved = movedFiles(
    before.filter(({ path }) => removed.has(path)),
    after.filter(({ path }) => added.has(path)),
  );
  const deleted = changes.removed.filter((path) => !moved.has(path));
  if (!exceedsLimit(limit, deleted.length, before.length)) return null;
  const gone = deleted.sort();
  return {
    subject: 'files',
    deletions: gone.length,
    of: before.length,
    digest: hash('sha256', JSON.stringify(gone)),
    first: gone.slice(0, PATHS_SHOWN),
  };
}

/**
 * The files that only moved, each by its old path: if several have the same bytes, the first gone path is matched with
 * the first new one.
 * @param gone files that only the earlier state has
 * @param arrived files that only the later state has
 */
export function movedFiles(
  gone: readonly ManifestFile[],
  arrived: readonly ManifestFile[],
): ReadonlyMap<string, ManifestFile> {
  const places = Map.groupBy([...arrived].sort(byPath), ({ sha256 }) => sha256);
  const taken = new Map<string, number>();
  const moved = new Map<string, ManifestFile>();
  for (const { path, sha256 } of [...gone].sort(byPath)) {
    const index = taken.get(sha256) ?? 0;
    const place = places.get(sha256)?.[index];
    if (place === undefined) continue;
    taken.set(sha256, index + 1);
    moved.set(path, place);
  }
  return moved;
}

function byPath(a: ManifestFile, b: ManifestFile): number {
  return byCodeUnits(a.path, b.path);
}
