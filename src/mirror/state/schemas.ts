import { z } from 'zod';
import { ERROR_RULES, type ErrorCode } from '../../lib/errors/errors.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import type { Doubt } from '../plan/contradictions.ts';
import { type DriftNote, checkOf, type TreeSummary } from '../plan/record.ts';
import { TRIGGERS } from '../pass/events.ts';

const time = z.number();
/** A target, as below `mirror/`: paths are made of it. */
const target = z.string().refine(isTargetPath);
const errorCode = z.custom<ErrorCode>((code) => typeof code === 'string' && Object.hasOwn(ERROR_RULES, code));

const failureSchema = z.object({
  code: errorCode,
  action: z.enum(['retry', 'hold', 'quarantine', 'stall', 'exit']),
  message: z.string(),
  hint: z.string().nullable(),
  sinceMs: time,
  lastAtMs: time,
  attempts: z.number().int().positive(),
  nextAttemptAtMs: time,
  fingerprint: z.string().nullable(),
  verdictDigest: z.string().nullable().default(null),
});

const heldSchema = z.object({
  subject: z.enum(['target', 'restored', 'files', 'deselected', 'moved']),
  deletions: z.number().int().nonnegative(),
  of: z.number().int().nonnegative(),
  digest: z.string().nullable(),
  sinceMs: time,
  nextLookAtMs: time,
  fingerprint: z.string().nullable(),
  first: z.array(z.string()).readonly().default([]),
});

const doubtSchema = z.object({
  digest: z.string(),
  answers: z.number().int().positive(),
  sinceMs: time,
}) satisfies z.ZodType<Doubt>;

const count = z.number().int().nonnegative();

// In the order in which a summary is made: its checksum is that of its text.
const treeSummarySchema = z.object({
  path: target,
  repository: z.object({
    id: z.string().min(1),
    name: z.string(),
    fullName: z.string().min(1),
    url: z.string().nullable(),
    createdAt: z.string().nullable().optional(),
  }),
  branch: z.string().min(1),
  fingerprint: z.string().nullable(),
  borrowed: z.array(z.string()),
  settled: z.boolean(),
  etag: z.string().nullable(),
  verifiedAtMs: time,
  comparedAtMs: time.nullable(),
  publishedAtMs: time,
  restoredAtMs: time.nullable(),
  archiveBytes: count,
  fileCount: count,
  missing: z.array(z.string()),
  sizeBytes: count,
}) satisfies z.ZodType<TreeSummary>;

/** One that was spoilt, or that another version wrote, counts as none: its manifest is read. */
const rememberedTreeSchema = z
  .object({ stamp: z.string(), summary: treeSummarySchema, check: z.number() })
  .refine((tree) => tree.check === checkOf(tree))
  .nullable()
  .default(null)
  .catch(null);

/** See `ShareReport`. */
export const shareReportSchema = z.object({
  index: z.int().min(1),
  count: z.int().min(1),
  directoryId: z.string(),
  host: z.string(),
  writtenAtMs: z.number(),
  failure: z.string().nullable(),
  maxStalenessMs: z.number(),
  targets: z.int().min(0),
  notWell: z.int().min(0),
  oldestVerifiedAtMs: z.number().nullable(),
});

const driftSchema = z.object({
  sinceMs: time,
  needsRepair: z.boolean(),
  added: count,
  missing: count,
  modified: count,
  first: z.string(),
}) satisfies z.ZodType<DriftNote>;

/** A record as it is kept, see `StoredRecord`; anything else counts as none. Compiled, as there are many. */
export const storedRecordSchema = z.compile(
  z.object({
    target: z.object({ repositoryId: z.string().min(1), branch: z.string().min(1) }),
    repository: z.string(),
    verifiedAtMs: time.nullable(),
    checkedAtMs: time.nullable(),
    examinedAtMs: time.nullable().default(null),
    publishedAtMs: time.nullable().default(null),
    tree: rememberedTreeSchema,
    missingPasses: z.number().int().nonnegative(),
    processingSinceMs: time.nullable(),
    absentSinceMs: time.nullable(),
    failure: failureSchema.nullable(),
    doubt: doubtSchema.nullable().default(null).catch(null),
    held: heldSchema.nullable().default(null),
    drift: driftSchema.nullable().default(null).catch(null),
    decisions: z.array(
      z.object({
        kind: z.string(),
        reason: z.string(),
        result: z.string(),
        firstAtMs: time,
      }),
    ),
    follows: z.boolean().default(false).catch(false),
  }),
);

/** Failures of workbooks that were reported, by workbook and branch: at which version and count. */
export const reportedFailuresSchema = z.record(
  z.string(),
  z.object({ versionId: z.string(), count: z.number().int().positive() }),
);

export type ReportedFailures = Readonly<z.infer<typeof reportedFailuresSchema>>;

const trigger = z.enum(TRIGGERS);

/** The numbers of a pass. */
export const passSummarySchema = z.object({
  trigger: trigger,
  durationMs: z.number(),
  targets: z.number(),
  pulled: z.number(),
  changed: z.number(),
  tried: z.number().default(0),
  failed: z.number(),
  held: z.number(),
  missing: z.number().default(0),
  downloadedBytes: z.number(),
  changedFiles: z.number(),
  pulling: z.number().default(0),
  waiting: z.number().default(0),
  processing: z.number(),
});

/** Why a pass failed as a whole. */
export const passFailureSchema = z.object({
  code: errorCode,
  message: z.string(),
  hint: z.string().nullable(),
});

/** How the last pass went. */
export const lastPassSchema = z.object({
  trigger: trigger,
  startedAtMs: time,
  finishedAtMs: time,
  /** When the listing was taken of this pass or, where it failed, of the last one that ended well; null where none is known. */
  listedAtMs: time.nullable().default(null),
  summary: passSummarySchema.nullable(),
  failure: passFailureSchema.nullable(),
  selection: z
    .object({
      repositories: z.number().int().nonnegative(),
      selected: z.number().int().nonnegative(),
      unmatched: z
        .array(z.object({ setting: z.string(), pattern: z.string(), nearest: z.string().nullable() }))
        .readonly(),
    })
    .nullable()
    .default(null),
  publishesWhole: z.boolean().default(true),
  /** Whether the list of repositories was whole. */
  isWhole: z.boolean().default(true),
  /** Faults of the service's lists, a sentence each. */
  problems: z.array(z.string()).readonly().default([]),
});

/** A tree as the command after publishing last received it, with the path of its target. */
export const toldTreeSchema = z.object({
  target,
  repositoryId: z.string(),
  repository: z.string(),
  branch: z.string(),
  publishedAtMs: time,
  fingerprint: z.string().nullable(),
});

/** Troubles that were told, by what has them. */
export const troublesSchema = z.record(z.string(), z.string());

const refusedKeysSchema = z.object({
  generation: z.enum(['current', 'v1']),
  digest: z.string(),
  attempts: z.number().int().positive(),
  untilMs: time,
});

/** Findings about the installation. */
export const installationSchema = z.object({
  baseUrl: z.string(),
  referenceForm: z.enum(['id', 'full_name_encoded', 'full_name', 'name']).nullable(),
  /** Until when the service asked for no requests (Retry-After). */
  pausedUntilMs: time.nullish().catch(null),
  /** Keys that the service refused, by their digest. */
  refused: refusedKeysSchema.nullish().catch(null),
});
