import { crc32 } from 'node:zlib';
import type { Repository, TargetId } from '../upstream/listing.ts';
import { isAhead } from '../../lib/time/wrong-clock.ts';
import type { ErrorAction, ErrorCode } from '../../lib/errors/errors.ts';
import type { Doubt } from './contradictions.ts';
import type { HeldDeletion } from './guard.ts';

/** A published tree, as its manifest and the disk describe it. */
export interface Published {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly repository: Pick<Repository, 'id' | 'name' | 'fullName' | 'url'>;
  readonly branch: string;
  readonly fingerprint: string | null;
  readonly borrowed: readonly string[];
  readonly settled: boolean;
  readonly etag: string | null;
  /** Milliseconds since the epoch. */
  readonly verifiedAtMs: number;
  /** See `Manifest.comparedAtMs`. Milliseconds since the epoch. */
  readonly comparedAtMs: number | null;
  /** Milliseconds since the epoch. */
  readonly publishedAtMs: number;
  /** When a person brought it back from the history; null for what the service gave. Milliseconds since the epoch. */
  readonly restoredAtMs: number | null;
  readonly archiveBytes: number;
  /** See `Manifest.missing`. */
  readonly missing: readonly string[];
  readonly fileCount: number;
  readonly sizeBytes: number;
  /** False when the manifest is there and the tree is not. */
  readonly treePresent: boolean;
}

/** A published tree that another instance mirrors: as much of it as says whose place that is. */
export interface OtherTree {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly repositoryId: string;
  readonly fullName: string;
  readonly branch: string;
}

/** The facts of a manifest about its tree as a whole. */
export type TreeSummary = Omit<Published, 'treePresent'>;

/** A summary that is remembered, so that its manifest need not be read again. */
export interface RememberedTree {
  /** Tells the manifest's file from every other: it counts for that very file only. */
  readonly stamp: string;
  readonly summary: TreeSummary;
  /** See {@link checkOf}. */
  readonly check: number;
}

/** The number of the form of {@link TreeSummary}: a summary of another form is not read. */
const SUMMARY_FORM = 2;

/** The CRC-32 of what is remembered of a tree: what a store spoilt, or another version wrote, counts as nothing. */
export function checkOf({ stamp, summary }: Pick<RememberedTree, 'stamp' | 'summary'>): number {
  return crc32(`${SUMMARY_FORM}\n${stamp}\n${JSON.stringify(summary)}`);
}

/** Whether a value is what this version remembers of a tree, with its check. */
export function isUnspoilt(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { stamp, summary, check } = value as Partial<RememberedTree>;
  return stamp !== undefined && summary !== undefined && check === checkOf({ stamp, summary });
}

/** A target, and where its tree is, as the directory's inventory names it (manual, "On disk"). */
export interface ListedTarget extends TargetId {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
}

/** Why the last attempt at a target failed, and when the next one is due. Times in milliseconds since the epoch. */
export interface Failure {
  readonly code: ErrorCode;
  readonly action: ErrorAction;
  readonly message: string;
  readonly hint: string | null;
  readonly sinceMs: number;
  readonly lastAtMs: number;
  /** Failures in a row. */
  readonly attempts: number;
  readonly nextAttemptAtMs: number;
  /** The digest of the versions that failed: a quarantine ends when it changes. */
  readonly fingerprint: string | null;
}

/** A deletion that the guard held back. Times in milliseconds since the epoch. */
export interface Held extends HeldDeletion {
  readonly sinceMs: number;
  /** When the contents are looked at again without an approval. */
  readonly nextLookAtMs: number;
  /** The digest of the versions that would delete. */
  readonly fingerprint: string | null;
  /** The first of the files that would go; none where nothing would. */
  readonly first: readonly string[];
}

/** A decision that was taken about a target. */
export interface Decision {
  readonly kind: string;
  readonly reason: string;
  readonly result: string;
  /** When it was taken for the first time, if several passes in a row took it. Milliseconds since the epoch. */
  readonly firstAtMs: number;
}

/** How much of a tree is not as its manifest says. */
export interface DriftSummary {
  readonly added: number;
  readonly missing: number;
  readonly modified: number;
  /** The path of the first difference. */
  readonly first: string;
}

/** How a published tree was found to differ from its manifest. */
export interface DriftNote extends DriftSummary {
  /** When it was found to differ in this way, in milliseconds since the epoch. */
  readonly sinceMs: number;
  /** Whether the next pass is to repair it; otherwise the next full check does. */
  readonly needsRepair: boolean;
}

/** The memory of a target beside its manifest. Losing it costs requests, never data. */
export interface TargetRecord {
  readonly target: TargetId;
  /** The repository's path below `mirror/`, for people. */
  readonly repository: string;
  /** When the target was last known to be what the service has; null when never. Milliseconds since the epoch. */
  readonly verifiedAtMs: number | null;
  /** When the contents were last compared whole. Milliseconds since the epoch. */
  readonly checkedAtMs: number | null;
  /** When every byte of the published tree was last read and found to be what its manifest says. Milliseconds since the epoch. */
  readonly examinedAtMs: number | null;
  /** `publishedAtMs` of the tree that these times speak of: they say nothing of another, such as one from an older backup. */
  readonly publishedAtMs: number | null;
  /** The summary of its manifest, so that it need not be read again; null where nothing is remembered. */
  readonly tree: RememberedTree | null;
  /** Complete answers in a row that lacked the target; an answer that proves nothing neither counts nor resets. */
  readonly missingPasses: number;
  /** Since when a target that was never mirrored waits for the service to finish with it. Milliseconds since the epoch. */
  readonly processingSinceMs: number | null;
  /** Since when the service has no contents for it, although nothing says that it should. Milliseconds since the epoch. */
  readonly absentSinceMs: number | null;
  readonly failure: Failure | null;
  /** The contradiction between the list and the contents in the last answers; null where these agreed. */
  readonly doubt: Doubt | null;
  /** The deletion that waits for `approve`. */
  readonly held: Held | null;
  /** Null for a tree that is what its manifest says, as far as is known. */
  readonly drift: DriftNote | null;
  /** The latest first. */
  readonly decisions: readonly Decision[];
}

/**
 * The record of a target of which nothing is remembered.
 * @param repository the repository's path below `mirror/`, where it is known
 */
export function emptyRecord(target: TargetId, repository = ''): TargetRecord {
  return {
    target,
    repository,
    verifiedAtMs: null,
    checkedAtMs: null,
    examinedAtMs: null,
    publishedAtMs: null,
    tree: null,
    missingPasses: 0,
    processingSinceMs: null,
    absentSinceMs: null,
    failure: null,
    doubt: null,
    held: null,
    drift: null,
    decisions: [],
  };
}

/** The record of a target that was never mirrored, from when its first pull is queued: until that ends it is known by this alone. */
export function queuedRecord(target: TargetId, repository: string, nowMs: number): TargetRecord {
  const queued = { kind: 'pull', reason: 'never-mirrored', result: 'queued', firstAtMs: nowMs } as const;
  return { ...emptyRecord(target, repository), decisions: [queued] };
}

/** Since when the first pull of a target is queued; null where it is not. Milliseconds since the epoch. */
export function queuedSinceMs({ decisions: [last] }: Pick<TargetRecord, 'decisions'>): number | null {
  return last?.result === 'queued' ? last.firstAtMs : null;
}

/** The outcome of an action. */
export type Outcome =
  | { readonly kind: 'kept' }
  /** The contents were compared; `changedFiles` of them were published. */
  | {
      readonly kind: 'pulled';
      readonly changedFiles: number;
      /** Whether they were compared whole, and not just the workbooks with new versions. */
      readonly isWhole: boolean;
      /** When the service had what was compared, if a cache gave it. Milliseconds since the epoch. */
      readonly asOfMs?: number;
      /** As in the tree's manifest. Milliseconds since the epoch. */
      readonly publishedAtMs: number;
      /** Whether every byte of the tree was read or written. */
      readonly isExamined: boolean;
      /** The summary of the manifest that was published; null where none was. */
      readonly tree: RememberedTree | null;
    }
  | { readonly kind: 'held' }
  /** Too much would be deleted: it waits for a person's word. */
  | { readonly kind: 'guarded'; readonly held: HeldDeletion; readonly fingerprint: string | null }
  /** The service has nothing there, and a complete answer agrees. */
  | { readonly kind: 'missing' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'retired' }
  | {
      readonly kind: 'failed';
      readonly code: ErrorCode;
      readonly action: ErrorAction;
      readonly message: string;
      readonly hint: string | null;
      readonly retryAfterMs: number;
      readonly fingerprint: string | null;
      /** The contradiction that it failed by; left out for any other failure. */
      readonly doubt?: Doubt;
    };

/** A record without the times that speak of another tree than the one that is there. */
export function aboutTree(record: TargetRecord, publishedAtMs: number | null): TargetRecord {
  if (publishedAtMs === null || record.publishedAtMs === publishedAtMs) return record;
  return { ...record, publishedAtMs, verifiedAtMs: null, checkedAtMs: null, examinedAtMs: null };
}

/**
 * Records without times that lie in the future, which a clock that was ahead left: such a time counts as never. A deletion that waits
 * for approval still waits, from now on.
 * @param nowMs milliseconds since the epoch
 */
export function recordsUpToNow(
  records: ReadonlyMap<string, TargetRecord>,
  nowMs: number,
): ReadonlyMap<string, TargetRecord> {
  return new Map([...records].map(([key, record]) => [key, upToNow(record, nowMs)]));
}

function upToNow(record: TargetRecord, nowMs: number): TargetRecord {
  const past = (timeMs: number | null): number | null => (isAhead(nowMs, timeMs) ? null : timeMs);
  const { failure, held } = record;
  const isHeldAhead = held !== null && isAhead(nowMs, held.sinceMs);
  return {
    ...record,
    verifiedAtMs: past(record.verifiedAtMs),
    checkedAtMs: past(record.checkedAtMs),
    examinedAtMs: past(record.examinedAtMs),
    processingSinceMs: past(record.processingSinceMs),
    absentSinceMs: past(record.absentSinceMs),
    failure: failure !== null && isAhead(nowMs, failure.lastAtMs) ? null : failure,
    held: isHeldAhead ? { ...held, sinceMs: nowMs, nextLookAtMs: nowMs } : held,
  };
}
