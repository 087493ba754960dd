import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { ERROR_RULES, type ErrorCode } from '../../lib/errors/errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import type { Doubt } from '../plan/contradictions.ts';
import { type DriftNote, isUnspoilt, type RememberedTree, type TargetRecord } from '../plan/record.ts';
import { TRIGGERS } from '../pass/events.ts';

/**
 * The form of each document of the state cache. One that was spoilt, or that another version wrote in another form, counts as none:
 * what it remembered is found out again.
 */

/** Milliseconds since the epoch. */
const time = z.number();
const timeOrNever = time.nullable().default(null);
const count = z.int().min(0);
const text = z.string();
const textOrNull = text.nullable();
/** A target, as below `mirror/`: paths are made of it. */
const target = text.refine(isTargetPath);
const errorCode = z.custom<ErrorCode>((code) => typeof code === 'string' && Object.hasOwn(ERROR_RULES, code));

const failureSchema = z.object({
  code: errorCode,
  action: z.enum(['retry', 'hold', 'quarantine', 'stall', 'exit']),
  message: text,
  hint: textOrNull,
  sinceMs: time,
  lastAtMs: time,
  attempts: z.int().min(1),
  nextAttemptAtMs: time,
  fingerprint: textOrNull,
});

const heldSchema = z.object({
  subject: z.enum(['target', 'restored', 'files', 'deselected', 'moved']),
  deletions: count,
  of: count,
  digest: textOrNull,
  sinceMs: time,
  nextLookAtMs: time,
  fingerprint: textOrNull,
  first: z.array(text).readonly().default([]),
});

const doubtSchema = z.object({
  digest: text,
  answers: z.int().min(1),
  sinceMs: time,
}) satisfies z.ZodType<Doubt>;

const driftSchema = z.object({
  sinceMs: time,
  needsRepair: z.boolean(),
  added: count,
  missing: count,
  modified: count,
  first: text,
}) satisfies z.ZodType<DriftNote>;

/** See {@link StoredRecord}. Compiled, as there are many. */
export const storedRecordSchema = z.compile(
  z.object({
    target: z.object({ repositoryId: text.min(1), branch: text.min(1) }),
    repository: text,
    verifiedAtMs: time.nullable(),
    checkedAtMs: time.nullable(),
    examinedAtMs: timeOrNever,
    publishedAtMs: timeOrNever,
    tree: z.custom<RememberedTree>(isUnspoilt).nullable().default(null).catch(null),
    missingPasses: count,
    processingSinceMs: time.nullable(),
    absentSinceMs: time.nullable(),
    failure: failureSchema.nullable(),
    doubt: doubtSchema.nullable().default(null).catch(null),
    held: heldSchema.nullable().default(null),
    drift: driftSchema.nullable().default(null).catch(null),
    decisions: z.array(z.object({ kind: text, reason: text, result: text, firstAtMs: time })),
    follows: z.boolean().default(false).catch(false),
  }),
);

/**
 * A record as it is kept. Most passes change nothing, and then no record is written: one that `follows` is of a target that every pass
 * since has kept, so that it was verified when the last pass that ended well took its listing.
 */
export interface StoredRecord extends TargetRecord {
  readonly follows: boolean;
}

/** The record, as it reads after the last pass that ended well. @param listedAtMs when that took its listing; null for never */
export function recordOf({ follows, ...record }: StoredRecord, listedAtMs: number | null): TargetRecord {
  if (!follows || listedAtMs === null) return record;
  return { ...record, verifiedAtMs: Math.max(record.verifiedAtMs ?? 0, listedAtMs) };
}

/**
 * The form in which a record is kept. Where a cache gave a listing of before the last one, the record does not follow that.
 * @param listedAtMs as in {@link recordOf}
 */
export function storedRecord(record: TargetRecord, listedAtMs: number | null): StoredRecord {
  const isKept = record.decisions[0]?.result === 'kept';
  return { ...record, follows: isKept && (record.verifiedAtMs ?? 0) >= (listedAtMs ?? 0) };
}

/** A record that follows no pass. */
export function ownTime(record: TargetRecord): StoredRecord {
  return { ...record, follows: false };
}

/** Whether what is kept says the same, once the pass has ended well. */
export function isKnown(wanted: StoredRecord, known: StoredRecord | undefined): boolean {
  if (known === undefined) return false;
  const isRepeated =
    wanted.follows && known.follows && (known.verifiedAtMs ?? 0) <= (wanted.verifiedAtMs ?? 0);
  return isDeepStrictEqual(isRepeated ? { ...wanted, verifiedAtMs: known.verifiedAtMs } : wanted, known);
}

const trigger = z.enum(TRIGGERS);

/** The numbers of a pass. */
export const passSummarySchema = z.object({
  trigger,
  durationMs: z.number(),
  targets: count,
  pulled: count,
  changed: count,
  tried: count.default(0),
  failed: count,
  held: count,
  missing: count.default(0),
  downloadedBytes: count,
  changedFiles: count,
  pulling: count.default(0),
  waiting: count.default(0),
  processing: count,
});

/** Why a pass failed as a whole. */
export const passFailureSchema = z.object({ code: errorCode, message: text, hint: textOrNull });

const unmatchedSchema = z.object({ setting: text, pattern: text, nearest: textOrNull });

/** How the last pass went. */
export const lastPassSchema = z.object({
  trigger,
  startedAtMs: time,
  finishedAtMs: time,
  /** When the listing was taken of this pass or, where it failed, of the last one that ended well; null where none is known. */
  listedAtMs: timeOrNever,
  summary: passSummarySchema.nullable(),
  failure: passFailureSchema.nullable(),
  selection: z
    .object({ repositories: count, selected: count, unmatched: z.array(unmatchedSchema).readonly() })
    .nullable()
    .default(null),
  publishesWhole: z.boolean().default(true),
  /** Whether the list of repositories was whole. */
  isWhole: z.boolean().default(true),
  /** Faults of the service's lists, a sentence each. */
  problems: z.array(text).readonly().default([]),
});

/** Failures of workbooks that were reported, by workbook and branch: at which version and count. */
export const reportedFailuresSchema = z.record(text, z.object({ versionId: text, count: z.int().min(1) }));

export type ReportedFailures = Readonly<z.infer<typeof reportedFailuresSchema>>;

/** A tree as the command after publishing last received it, with the path of its target. */
export const toldTreeSchema = z.object({
  target,
  repositoryId: text,
  repository: text,
  branch: text,
  publishedAtMs: time,
  fingerprint: textOrNull,
});

/** Troubles that were reported, by what has them. */
export const troublesSchema = z.record(text, text);

/** Findings about the installation. */
export const installationSchema = z.object({
  baseUrl: text,
  referenceForm: z.enum(['id', 'full_name_encoded', 'full_name', 'name']).nullable(),
  /** Until when the service asked for no requests (Retry-After). */
  pausedUntilMs: time.nullish().catch(null),
  /** Keys that the service refused, by their digest. */
  refused: z
    .object({
      generation: z.enum(['current', 'v1']),
      digest: text,
      attempts: z.int().min(1),
      untilMs: time,
    })
    .nullish()
    .catch(null),
});

/** See `ShareReport`. */
export const shareReportSchema = z.object({
  index: z.int().min(1),
  count: z.int().min(1),
  directoryId: text,
  host: text,
  writtenAtMs: time,
  failure: textOrNull,
  maxStalenessMs: z.number(),
  targets: count,
  notWell: count,
  oldestVerifiedAtMs: time.nullable(),
});
