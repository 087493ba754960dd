import { createHash } from 'node:crypto';
import { z } from 'zod';

import { type ManifestFile, movedFiles, type TreeChanges } from '../store/manifest.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';

/** How much may be deleted at once without a person's word: a share, a number, or anything. */
export type DeletionLimit =
  | { readonly kind: 'share'; readonly percent: number }
  | { readonly kind: 'count'; readonly count: number }
  | { readonly kind: 'off' };

/** Whether deleting so many of a total is more than a limit lets through. */
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

/** How much may be deleted without a person's word. */
export interface GuardPolicy {
  /** Targets that may be retired in one pass, of those that are mirrored. */
  readonly targets: DeletionLimit;
  /** Files of a target that one publish may delete. */
  readonly files: DeletionLimit;
}

/**
 * Whatever a held deletion may be about: the whole target, as it is gone from the service with too many others; the same for one that a
 * person brought back from the history; files of a target, which a new version lacks; or nothing but the mirroring of a target, which the
 * settings no longer select, as too many others; or the copy of a target that another instance mirrors now.
 */
export const HELD_SUBJECTS = ['target', 'restored', 'files', 'deselected', 'moved'] as const;

/** A deletion that waits for a person's word. */
export interface HeldDeletion {
  readonly subject: (typeof HELD_SUBJECTS)[number];
  /** How many targets of the pass, or files of the target, would be deleted, or how many targets mirrored no longer. */
  readonly deletions: number;
  readonly of: number;
  /** The digest of the paths that would be deleted: an approval is for just those. Null for a whole target. */
  readonly digest: string | null;
  /** The first of the files that would go, sorted, at most {@link PATHS_SHOWN}; left out where a manifest tells them all. */
  readonly first?: readonly string[];
}

/** So many of the files that would go are remembered and shown of a held deletion. */
export const PATHS_SHOWN = 100;

export const approvalSchema = z.object({
  target: z.object({ repositoryId: z.string(), branch: z.string() }),
  /** The held deletion that goes through; `service` where the whole directory may mirror another service than before. */
  subject: z.enum([...HELD_SUBJECTS, 'service']),
  /** As in {@link HeldDeletion}. */
  digest: z.string().nullable(),
});

/** A person's word that a deletion may go through, once. */
export type Approval = Readonly<z.infer<typeof approvalSchema>>;

/** Approvals by target. */
export type Approvals = ReadonlyMap<string, Approval>;

/** Whether a held deletion is the one that a person approved. */
export function isApproved(
  approvals: Approvals,
  target: TargetId,
  held: Pick<Approval, 'subject' | 'digest'>,
): boolean {
  const approval = approvals.get(targetKey(target));
  if (approval === undefined || approval.digest !== held.digest) return false;
  if (approval.subject === held.subject) return true;
  return approval.subject === 'restored' && held.subject === 'target';
}

/** The facts by which deletions that happen together are judged. */
export interface GuardFacts {
  readonly policy: { readonly guard: Pick<GuardPolicy, 'targets'> };
  readonly approvals: Approvals;
  /** Holds of the pass before, by target key. */
  readonly records: ReadonlyMap<string, { readonly held: HeldDeletion | null }>;
}

/**
 * Finds the targets, of those that are to be retired in one pass or that the settings no longer select, that are held because there
 * are too many of them: a slip in a filter must not stop a mirror. What was approved goes through and lets nothing else through: a
 * target that was held once stays so until it is approved itself, is back, or the limit is raised.
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
    if (isApproved(approvals, target, { subject, digest: null })) return false;
    const before = records.get(targetKey(target))?.held;
    return isTooMuch || (before?.subject === subject && exceedsLimit(limit, before.deletions, before.of));
  });
  const deletion = { subject, deletions: held.length, of: total, digest: null };
  return new Map(held.map((each) => [each, deletion]));
}

/** Targets of up to so many files are not guarded: half of them is one ordinary edit. */
const FEW_FILES = 5;

/**
 * The deletion that a new state of a target would be, if that is more than a limit lets through; otherwise null. A file that only
 * moved is not deleted: its bytes are still there.
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
    digest: digestOfPaths(gone),
    first: gone.slice(0, PATHS_SHOWN),
  };
}

/** The digest that tells one deletion of files from another. @param paths sorted */
function digestOfPaths(paths: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(paths)).digest('hex');
}
