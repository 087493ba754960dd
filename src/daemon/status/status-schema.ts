import { z } from 'zod';
import { PULL_PHASES, summarySchema, TRIGGERS } from '../../mirror/pass/events.ts';
import { errorSchema } from '../../mirror/plan/record.ts';
import { selectionCheckSchema } from '../../mirror/plan/selection.ts';
import { EVENTS } from '../../app/events.ts';
import { LOG_KINDS } from '../../app/change-log.ts';
import {
  NOT_WELL_REASONS,
  sizeBytes,
  targetName as target,
  targetStatusSchema,
  timeMs,
  timeOrNeverMs,
} from '../../app/target-status.ts';

/**
 * The schema of `/api/status`. The types of the daemon's status and the published JSON Schema are derived from
 * it.
 */

/** The possible ends of a pass. */
export const PASS_RESULTS = ['finished', 'failed', 'abandoned'] as const;

/** Whether the service accepts a credential; `unknown`: not used since the program started. */
export const CREDENTIAL_STATES = ['unknown', 'accepted', 'refused'] as const;

const durationMs = z.number().meta({ description: 'milliseconds' });
const count = z.int();
const trigger = z.enum(TRIGGERS);

const readiness = z
  .object({
    isReady: z.boolean(),
    isListed: z.boolean(),
    selectsNothing: z
      .boolean()
      .meta({ description: 'whether the settings select nothing of what the service lists' }),
    stateProblem: z
      .string()
      .nullable()
      .meta({ description: 'why the state cache cannot be read, so that nothing counts as ready' }),
    notReady: list(
      z.object({
        target,
        reason: z.enum(NOT_WELL_REASONS),
        verifiedAtMs: timeOrNeverMs,
      }),
    ),
  })
  .meta({ description: 'whether the mirror is up to date with the service' });

const liveness = z
  .object({
    isAlive: z.boolean(),
    state: z.enum(['starting', 'idle', 'passing', 'stuck', 'stopping']),
    silentMs: durationMs,
  })
  .meta({ description: 'whether the daemon makes progress' });

const currentPass = z.object({
  trigger,
  startedAtMs: timeMs,
  planned: z.object({ pull: count, keep: count, hold: count, retire: count }).nullable().meta({
    description: 'null until the plan is made',
  }),
  done: count.meta({ description: 'pulls that ended' }),
  pulling: list(target).meta({ description: 'targets being pulled, without slow pulls' }),
});

const passNote = z.object({
  trigger,
  startedAtMs: timeMs,
  durationMs,
  result: z.enum(PASS_RESULTS),
  summary: summarySchema.omit({ trigger: true, durationMs: true }).nullable(),
  failure: errorSchema.nullable(),
});

const flagged = z.object({
  count,
  first: list(z.object({ workbookId: z.string(), versionId: z.string(), branch: z.string() })),
});

const upstream = z.object({
  readAtMs: timeMs,
  repositories: count,
  workbooks: count.nullable(),
  processing: flagged,
  failed: flagged,
});

const credential = z.object({
  state: z.enum(CREDENTIAL_STATES),
  key: z.number().int().positive().nullable().meta({
    description: 'which of the keys of the setting is accepted, counted from 1; null unless one is',
  }),
  sinceMs: timeOrNeverMs,
  nextAttemptAtMs: timeOrNeverMs,
});

const live = z
  .object({
    startedAtMs: timeMs,
    isStopping: z.boolean(),
    pass: currentPass.nullable(),
    slow: list(z.object({ target, startedAtMs: timeMs })).meta({
      description:
        'pulls that take longer than a minute, of this pass or an earlier one; the first one first',
    }),
    passes: list(passNote).meta({ description: 'the latest last' }),
    hasFinishedPass: z.boolean(),
    listed: z.object({ isKnown: z.boolean(), isWhole: z.boolean(), isOutdated: z.boolean() }).meta({
      description: 'whether the targets are known; whether the list of the pass is whole, or outdated',
    }),
    nextPassAtMs: timeOrNeverMs,
    upstream: upstream.nullable(),
    selection: selectionCheckSchema
      .nullable()
      .meta({ description: 'what the settings select, by the last listing' }),
    credentials: z.object({ apiKey: credential, apiToken: credential }),
    settings: z.object({
      takenAtMs: timeMs,
      problem: errorSchema.nullable(),
      restartNeeded: list(z.string()),
    }),
    http: z.object({ problem: errorSchema.nullable() }).meta({
      description: 'why nothing is served at http.listen; always null in an answer from there',
    }),
  })
  .meta({ description: 'what the daemon is doing, and did lately' });

const pull = z.object({
  target,
  phase: z.enum(PULL_PHASES),
  startedAtMs: timeMs,
  downloadedBytes: sizeBytes,
  doneBytes: sizeBytes.meta({ description: 'bytes of the phase that are done' }),
  totalBytes: sizeBytes.nullable(),
  isEstimate: z.boolean().meta({ description: 'whether the total is that of the last pull' }),
  bytesPerSecond: z.number().nullable(),
  leftMs: durationMs.nullable(),
});

const lease = z.object({ id: z.string(), holder: z.string(), takenAtMs: timeMs, untilMs: timeMs });

const targetStatus = targetStatusSchema.extend({
  approveCommand: z.string().optional().meta({
    description: 'only of a held target: the command that lets the deletion go, quoted for a shell',
  }),
});

const notice = z.object({
  atMs: timeMs,
  level: z.enum(['debug', 'info', 'warn', 'error']),
  event: z.enum(namesIn(EVENTS)),
  message: z.string(),
});

const change = z.object({
  target,
  atMs: timeMs,
  kind: z.enum(LOG_KINDS),
  files: count,
  first: list(
    z.object({
      change: z.enum(['added', 'changed', 'removed', 'moved']),
      path: z.string(),
      version: z.string().nullable(),
      author: z.string().nullable(),
      message: z.string().nullable(),
    }),
  ).meta({ description: 'the first of the files that changed' }),
});

/** The answer of `/api/status`. */
export const statusSchema = z
  .object({
    version: z.string(),
    service: z.string(),
    directory: z.string(),
    shard: z.object({ index: count, count }).nullable().meta({
      description: 'the shard of this instance; null where it mirrors all repositories',
    }),
    schedule: z.string(),
    timezone: z.string(),
    nowMs: timeMs,
    maxStalenessMs: durationMs,
    canExchange: z.boolean(),
    publishesWhole: z.boolean(),
    readiness,
    liveness,
    live,
    pulls: list(pull).meta({
      description: 'the pulls under way, the one that has taken longest first',
    }),
    scan: z
      .object({ doneTargets: count, targets: count })
      .nullable()
      .meta({ description: 'progress of a comparison of all trees, such as the one at the start' }),
    leases: list(lease),
    disk: z.object({ sizeBytes, freeBytes: sizeBytes }).nullable(),
    targets: list(targetStatus).meta({ description: 'by target, in order' }),
    changes: list(change).meta({ description: 'the last ten entries of the log, the latest first' }),
    notices: list(notice).meta({ description: 'the latest warnings and errors, the latest last' }),
  })
  .meta({
    title: 'The status of workbook-mirror',
    description:
      'The answer of /api/status. Fields may be added; those that are here keep their names and meanings.',
  });

/** The complete report of the running daemon: the answer of `/api/status`. Times in milliseconds since the epoch. */
export type DaemonReport = z.infer<typeof statusSchema>;

/** The report without the part that reads manifests. */
export type ReportWithoutChanges = Omit<DaemonReport, 'changes'>;

/** The present and recent work of the daemon, derived from its events. */
export type Live = Readonly<DaemonReport['live']>;

/** A finished pass. */
export type PassNote = Live['passes'][number];

/** Whether the mirror is up to date with the service. */
export type Readiness = DaemonReport['readiness'];

/** Whether the daemon makes progress; `stuck` if running work has made none for too long. */
export type Liveness = DaemonReport['liveness'];

/** The schema as JSON Schema, draft 2020-12; it allows additional fields. */
export function statusJsonSchema(): unknown {
  return z.toJSONSchema(statusSchema, {
    // A field with a default for reading is always present when sent.
    io: 'output',
    // Fields may be added.
    override: ({ jsonSchema }) => void delete jsonSchema.additionalProperties,
  });
}

function list<Item extends z.ZodType>(item: Item): z.ZodReadonly<z.ZodArray<Item>> {
  return z.array(item).readonly();
}

function namesIn<Name extends string>(table: Readonly<Record<Name, unknown>>): Name[] {
  return Object.keys(table).filter((name): name is Name => name in table);
}
