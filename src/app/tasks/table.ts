import { z } from 'zod';

import { WORKBOOK_STATUS_FILTERS } from '../../lib/api/requests.ts';
import { isTargetPath } from '../../lib/paths/file-name.ts';
import { approvalSchema } from '../../mirror/plan/guard.ts';
import type { Task, TaskKind, TaskWork } from './task.ts';

/** Gives a row of the table its types. @param load loads the function that does the task */
function task<Request extends z.ZodType, Result>(
  kind: TaskKind,
  request: Request,
  load: () => Promise<(work: TaskWork, request: z.output<Request>) => Promise<Result>>,
): Task<Request, Result> {
  return { kind, request, run: async (work, wish) => (await load())(work, wish) };
}

const nothing = z.strictObject({});

/** The path of a target, as below `mirror/`. */
const path = z.string().refine(isTargetPath);

/** Names of targets, as a person gives them. */
const names = z.array(z.string().min(1)).readonly();

const named = z.strictObject({ targets: names });

/** `targets`: tried and repaired even if they wait; all if omitted. */
const wantedPass = z.strictObject({ targets: names.optional(), wait: z.boolean().default(false) });

const oneTarget = z.strictObject({ target: path });

/** `targets`: paths; `expect`: the number of targets that must be there. */
const toRepair = z.strictObject({
  targets: z.array(path).readonly().optional(),
  expect: z.int().min(0).optional(),
});

/** Held deletions, each by its field `approval` of the task `held`. */
const toApprove = z.strictObject({ approvals: z.array(approvalSchema).readonly() });

/** `target`: null for all; `beforeMs`: states that left before this time. */
const toPrune = z.strictObject({ target: path.nullable(), beforeMs: z.number() });

const newRepository = z.union([
  z.strictObject({ name: z.string() }),
  z.strictObject({ url: z.string(), username: z.string().optional(), password: z.string().optional() }),
]);

const ofStatus = z.strictObject({ status: z.enum(WORKBOOK_STATUS_FILTERS).optional() });

const toProbe = z.strictObject({ withWrongKey: z.boolean().default(false), maxRequests: z.int().min(1) });

/**
 * The one table of tasks. Each is a route of the control socket: `POST /v1/NAME` with its request as JSON. A field may be added;
 * any other change needs a new version number.
 */
export const TASKS = {
  /** A pass now. */
  poll: task('pass', wantedPass, async () => (await import('./poll.ts')).poll),
  /** How the work of the daemon goes. */
  status: task('read', nothing, () => Promise.resolve(({ live }) => live())),
  /** The plan of a pass. */
  plan: task('read', nothing, async () => (await import('./plan.ts')).plan),
  /** Compares a target with the service. */
  diff: task('read', oneTarget, async () => (await import('./diff-upstream.ts')).diffUpstream),
  /** Verifies and repairs. */
  repair: task('change', toRepair, async () => (await import('./repair.ts')).repair),
  /** The held deletions. */
  held: task('read', nothing, async () => (await import('./approve.ts')).listHeld),
  /** Lets held deletions go through. */
  approve: task('change', toApprove, async () => (await import('./approve.ts')).approve),
  /** The targets among those named that may be forgotten. */
  forgettable: task('read', named, async () => (await import('./forget.ts')).listForgettable),
  /** Moves targets that are not mirrored any more to the history. */
  forget: task('change', named, async () => (await import('./forget.ts')).forget),
  /** The states that `prune` would remove. */
  prunable: task('read', toPrune, async () => (await import('./prune.ts')).listPrunable),
  /** Removes states from the history. */
  prune: task('change', toPrune, async () => (await import('./prune.ts')).prune),
  /** The repositories of the service. */
  repos: task('read', nothing, async () => (await import('./service-lists.ts')).listRepositories),
  /** Makes a repository in the service. */
  'repos/create': task(
    'change',
    newRepository,
    async () => (await import('./service-lists.ts')).addRepository,
  ),
  /** The workbooks of the service. */
  workbooks: task('read', ofStatus, async () => (await import('./service-lists.ts')).listWorkbooks),
  /** Finds out how the service behaves where its specification is silent. */
  probe: task('read', toProbe, async () => (await import('./probe.ts')).probeService),
} as const;

export type TaskName = keyof typeof TASKS;
/** The request of a task. */
export type TaskRequest<Name extends TaskName> = z.input<(typeof TASKS)[Name]['request']>;
export type TaskResult<Name extends TaskName> = Awaited<ReturnType<(typeof TASKS)[Name]['run']>>;

export function isTaskName(name: string): name is TaskName {
  return Object.hasOwn(TASKS, name);
}

/** Does a task. @throws ZodError for an invalid request; errors of the task */
export async function runTask<Name extends TaskName>(
  name: Name,
  work: TaskWork,
  wish: unknown,
): Promise<TaskResult<Name>> {
  const { request, run }: Task<z.ZodType, unknown> = TASKS[name] as Task<z.ZodType, unknown>;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the row of this name has this result
  return (await run(work, request.parse(wish))) as TaskResult<Name>;
}
