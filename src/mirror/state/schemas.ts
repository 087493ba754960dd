import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { summarySchema, TRIGGERS } from '../pass/events.ts';
import { errorSchema, recordSchema, type TargetRecord } from '../plan/record.ts';
import { selectionCheckSchema } from '../plan/selection.ts';
import { refusedKeysSchema } from '../upstream/keyring.ts';

/**
 * The schema of each document of the state cache. A damaged one, or one that another version wrote in another form, is ignored:
 * its facts are found out again.
 */

/** Milliseconds since the epoch. */
const time = z.number();
const text = z.string();

/** See {@link StoredRecord}. Compiled, as there are many. */
export const storedRecordSchema = z.compile(
  recordSchema.extend({ follows: z.boolean().default(false).catch(false) }),
);

/**
 * A record as it is stored. Most passes change nothing and write no record. A record that `follows` belongs to a target that every
 * pass since then has kept, so it was verified when the last successful pass took its listing.
 */
export interface StoredRecord extends TargetRecord {
  readonly follows: boolean;
}

/** The record, as of the last successful pass. @param listedAtMs when that took its listing; null for never */
export function recordOf({ follows, ...record }: StoredRecord, listedAtMs: number | null): TargetRecord {
  if (!follows || listedAtMs === null) return record;
  return { ...record, verifiedAtMs: Math.max(record.verifiedAtMs ?? 0, listedAtMs) };
}

/**
 * The stored form of a record. If a cache gave a listing older than the last one, the record does not follow that.
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

/** Whether the stored record will say the same once the pass has succeeded. */
export function isKnown(wanted: StoredRecord, known: StoredRecord | undefined): boolean {
  if (known === undefined) return false;
  const isRepeated =
    wanted.follows && known.follows && (known.verifiedAtMs ?? 0) <= (wanted.verifiedAtMs ?? 0);
  return isDeepStrictEqual(isRepeated ? { ...wanted, verifiedAtMs: known.verifiedAtMs } : wanted, known);
}

/** The result of a pass. */
const lastPassSchema = z.object({
  trigger: z.enum(TRIGGERS),
  startedAtMs: time,
  finishedAtMs: time,
  /** When this pass or, if it failed, the last successful one took its listing; null if unknown. */
  listedAtMs: time.nullable().default(null),
  summary: summarySchema.nullable(),
  failure: errorSchema.nullable(),
  selection: selectionCheckSchema.nullable().default(null),
  publishesWhole: z.boolean().default(true),
  /** Whether the list of repositories was whole. */
  isWhole: z.boolean().default(true),
  /** Faults of the service's lists, a sentence each. */
  problems: z.array(text).readonly().default([]),
});

/** Failures of workbooks that were reported, by workbook and branch: the version and count. */
const reportedFailuresSchema = z
  .record(text, z.object({ versionId: text, count: z.int().min(1) }))
  .readonly();

export type ReportedFailures = z.infer<typeof reportedFailuresSchema>;

/** Findings about the installation. */
const installationSchema = z.object({
  baseUrl: text,
  referenceForm: z.enum(['id', 'full_name_encoded', 'full_name', 'name']).nullable(),
  /** The end of the pause that the service asked for (Retry-After). */
  pausedUntilMs: time.nullish().catch(null),
  /** Keys that the service refused, by their digest. */
  refused: refusedKeysSchema.nullish().catch(null),
});

const documents = {
  'last-pass': lastPassSchema.nullable().catch(null),
  'reported-failures': reportedFailuresSchema.catch({}),
  /** Troubles that were reported to the webhook and are not over, by their subject. */
  troubles: z.record(text, text).readonly().catch({}),
  installation: installationSchema.nullable().catch(null),
};
export type Documents = { readonly [Name in keyof typeof documents]: z.infer<(typeof documents)[Name]> };

/** The documents that are read and saved whole. Each has a value for a missing or malformed one. */
export const DOCUMENTS: { readonly [Name in keyof Documents]: z.ZodType<Documents[Name]> } = documents;

/** A tree as `hooks.afterPublish` last received it, with the path of its target. */
export const hookTreeSchema = z.object({
  target: text.refine(isTargetPath),
  repositoryId: text,
  repository: text,
  branch: text,
  publishedAtMs: time,
  fingerprint: text.nullable(),
});
