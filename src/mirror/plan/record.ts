import { crc32 } from 'node:zlib';
import { z } from 'zod';
import { ERROR_RULES, type ErrorCode, type MirrorError } from '../../lib/errors/errors.ts';
import { isAhead } from '../../lib/time/wrong-clock.ts';
import type { Manifest } from '../store/manifest.ts';
import { type TargetId, targetKey } from '../upstream/listing.ts';
import { HELD_SUBJECTS, type HeldDeletion } from './guard.ts';

/** A published tree, as its manifest and the disk describe it. */
export interface Published extends Required<Omit<Manifest, 'files' | 'skipped' | 'isThorough' | 'approval'>> {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
  readonly fileCount: number;
  readonly sizeBytes: number;
  /** False if the manifest exists but not the tree. */
  readonly treePresent: boolean;
}

/** The target of a published tree. */
export function targetOf({ repository, branch }: Pick<Manifest, 'repository' | 'branch'>): TargetId {
  return { repositoryId: repository.id, branch };
}

/** As {@link targetKey}, of a published tree. */
export function treeKey(tree: Pick<Manifest, 'repository' | 'branch'>): string {
  return targetKey(targetOf(tree));
}

/** The facts of a manifest about its tree as a whole. */
export type TreeSummary = Omit<Published, 'treePresent'>;

/** A remembered summary, which saves reading its manifest again. */
export interface RememberedTree {
  /** Identifies the manifest's file: the summary counts for that very file only. */
  readonly stamp: string;
  readonly summary: TreeSummary;
  /** See {@link checkOf}. */
  readonly check: number;
}

/** The number of the form of {@link TreeSummary}: a summary of another form is not read. */
const SUMMARY_FORM = 2;

/** The CRC-32 of a remembered summary: a damaged one, or one of another version, is ignored. */
export function checkOf({ stamp, summary }: Pick<RememberedTree, 'stamp' | 'summary'>): number {
  return crc32(`${SUMMARY_FORM}\n${stamp}\n${JSON.stringify(summary)}`);
}

/** Whether a value is a summary that this version wrote, with the right check. */
function isUnspoilt(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { stamp, summary, check } = value as Partial<RememberedTree>;
  return stamp !== undefined && summary !== undefined && check === checkOf({ stamp, summary });
}

/** A target, and where its tree is, as the directory's inventory names it (manual, "On disk"). */
export interface ListedTarget extends TargetId {
  /** `<repository>/<branch>`, below `mirror/`. */
  readonly path: string;
}

const time = z.number().meta({ description: 'milliseconds since the epoch' });
const timeOrNever = time.nullable().default(null);
const count = z.int().min(0);
const text = z.string();
const textOrNull = text.nullable();

/** The code of an error that this version knows. */
const errorCode = z.enum(Object.keys(ERROR_RULES).filter((code): code is ErrorCode => code in ERROR_RULES));

/** The parts of an error that events and memories keep; hint is null if there is no advice. */
export const errorSchema = z.object({ code: errorCode, message: text, hint: textOrNull });

export const failureSchema = errorSchema.extend({
  action: z.enum(['retry', 'hold', 'quarantine', 'stall', 'exit']),
  sinceMs: time,
  lastAtMs: time,
  attempts: z.int().min(1).meta({ description: 'failures in a row' }),
  nextAttemptAtMs: time,
  /** The digest of the versions that failed: a quarantine ends when it changes. */
  fingerprint: textOrNull,
});

/** Why the last attempt at a target failed, and when the next one is due. */
export type Failure = Readonly<z.infer<typeof failureSchema>>;

export const heldSchema = z.object({
  subject: z.enum(HELD_SUBJECTS),
  deletions: count,
  of: count,
  digest: textOrNull,
  sinceMs: time,
  /** When the contents are asked for again without an approval. */
  nextLookAtMs: time,
  /** The digest of the versions that would cause the deletion. */
  fingerprint: textOrNull,
  first: z
    .array(text)
    .readonly()
    .default([])
    .meta({ description: 'the first hundred of the files that would go, sorted' }),
});

/** A {@link HeldDeletion}, and since when. */
export type Held = Readonly<z.infer<typeof heldSchema>>;

const decisionSchema = z.object({
  kind: text,
  reason: text,
  result: text,
  /** When it was first taken, if several passes in a row took it. */
  firstAtMs: time,
});

/** A decision about a target. */
export type Decision = Readonly<z.infer<typeof decisionSchema>>;

const doubtSchema = z.object({
  /** The digest of the contradictions. */
  digest: text,
  answers: z.int().min(1),
  /** When the first of them came. */
  sinceMs: time,
  /** The first paths of deleted workbooks that the contents still had in the last of them, sorted. */
  lingering: z.array(text).readonly().default([]),
});

/** Answers in a row that contradict the list in the same way. */
export type Doubt = Readonly<z.infer<typeof doubtSchema>>;

export const driftSchema = z.object({
  /** When the tree was found to differ in this way. */
  sinceMs: time,
  /** Whether the next pass must repair it; otherwise the next full check does. */
  needsRepair: z.boolean(),
  added: count,
  missing: count,
  modified: count,
  /** The path of the first difference. */
  first: text,
});

/** How a published tree was found to differ from its manifest. */
export type DriftNote = Readonly<z.infer<typeof driftSchema>>;

/** How much of a tree differs from its manifest. */
export type DriftSummary = Omit<DriftNote, 'sinceMs' | 'needsRepair'>;

/** A record as the state cache stores it. A record in another form is ignored. */
export const recordSchema = z.object({
  target: z.object({ repositoryId: text.min(1), branch: text.min(1) }).readonly(),
  /** The repository's path below `mirror/`, for people. */
  repository: text.default(''),
  /** When the target was last known to equal the service; null for never. */
  verifiedAtMs: timeOrNever,
  /** When the whole contents were last compared. */
  checkedAtMs: timeOrNever,
  /** When every byte of the published tree was last read and found to match its manifest. */
  examinedAtMs: timeOrNever,
  /** `publishedAtMs` of the tree that these times are about: they say nothing about another tree, for example from an older backup. */
  publishedAtMs: timeOrNever,
  /** The summary of its manifest, which saves reading it again; null if none is remembered. */
  tree: z.custom<RememberedTree>(isUnspoilt).nullable().default(null).catch(null),
  /** Complete answers in a row that lacked the target; an inconclusive answer neither counts nor resets. */
  missingPasses: count.default(0),
  /** When the listing of the last of them was taken. */
  missingAtMs: timeOrNever,
  /** Since when a target that was never mirrored waits for the service to finish processing it. */
  processingSinceMs: timeOrNever,
  /** Since when the service has no contents for it, although it need not have any. */
  absentSinceMs: timeOrNever,
  failure: failureSchema.nullable().default(null),
  /** The contradiction between the list and the contents in the last answers; null if these agreed. */
  doubt: doubtSchema.nullable().default(null).catch(null),
  /** The deletion that waits for `approve`. */
  held: heldSchema.nullable().default(null),
  /** Null for a tree that matches its manifest, as far as is known. */
  drift: driftSchema.nullable().default(null).catch(null),
  /** The latest first. */
  decisions: z.array(decisionSchema).readonly().default([]),
});

/** The memory of a target beside its manifest. Losing it costs requests, never data. */
export type TargetRecord = Readonly<z.infer<typeof recordSchema>>;

const NOTHING = recordSchema.omit({ target: true }).parse({});

/**
 * The record of a target about which nothing is remembered.
 * @param repository the repository's path below `mirror/`, if known
 */
export function emptyRecord(target: TargetId, repository = ''): TargetRecord {
  return { ...NOTHING, target, repository };
}

/** The record of a target that was never mirrored, from when its first pull is queued: until that pull ends, the record alone shows it. */
export function queuedRecord(target: TargetId, repository: string, nowMs: number): TargetRecord {
  const queued = { kind: 'pull', reason: 'never-mirrored', result: 'queued', firstAtMs: nowMs } as const;
  return { ...emptyRecord(target, repository), decisions: [queued] };
}

/** Since when the first pull of a target is queued; null if it is not queued. Milliseconds since the epoch. */
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
      /** Whether the whole contents were compared, and not just the workbooks with new versions. */
      readonly isWhole: boolean;
      /** When the service had the compared contents, if a cache gave them. Milliseconds since the epoch. */
      readonly asOfMs?: number;
      /** As in the tree's manifest. Milliseconds since the epoch. */
      readonly publishedAtMs: number;
      /** Whether every byte of the tree was read or written. */
      readonly isExamined: boolean;
      /** The summary of the published manifest; null if nothing was published. */
      readonly tree: RememberedTree | null;
    }
  | { readonly kind: 'held' }
  /** Too much would be deleted: it waits for approval. */
  | { readonly kind: 'guarded'; readonly held: HeldDeletion }
  /** The service has nothing there, and a complete answer confirms it. */
  | { readonly kind: 'missing' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'retired' }
  | { readonly kind: 'failed'; readonly error: MirrorError };

/** A record without the times that are about another tree than the present one. */
export function aboutTree(record: TargetRecord, publishedAtMs: number | null): TargetRecord {
  if (publishedAtMs === null || record.publishedAtMs === publishedAtMs) return record;
  return { ...record, publishedAtMs, verifiedAtMs: null, checkedAtMs: null, examinedAtMs: null };
}

/**
 * Records without times in the future, left by a clock that was ahead: such a time counts as never. A deletion that waits
 * for approval still waits, from now on.
 * @param nowMs milliseconds since the epoch
 */
export function recordsUpToNow(
  records: ReadonlyMap<string, TargetRecord>,
  nowMs: number,
): Map<string, TargetRecord> {
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
