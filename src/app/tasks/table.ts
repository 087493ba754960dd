import type { z } from 'zod';

import { type RequestOf, REQUESTS } from './requests.ts';
import type { TaskWork } from './task.ts';

/**
 * The fate of a task without its command: a `read` is abandoned and may be repeated; a `pass` continues and may be repeated; a
 * `change` continues and must not be repeated.
 */
type TaskKind = 'read' | 'pass' | 'change';

/** A row of the table. @param load loads the function that does the task */
function task<Request, Result>(
  kind: TaskKind,
  load: () => Promise<(work: TaskWork, request: Request) => Promise<Result>>,
) {
  return { kind, run: async (work: TaskWork, request: Request) => (await load())(work, request) };
}

/**
 * The one table of tasks. A command asks the daemon for one, or does it itself with the same function. Each is a route of the control
 * socket: `POST /v1/NAME` with its request as JSON, and a result in JSON. A field may be added; any other change needs a new version number.
 */
export const TASKS = {
  /** A pass now. */
  poll: task('pass', async () => (await import('./poll.ts')).poll),
  /** How the work of the daemon goes. */
  status: task('read', () => Promise.resolve(({ live }: TaskWork) => live())),
  /** The plan of a pass. */
  plan: task('read', async () => (await import('./plan.ts')).plan),
  /** Compares a target with the service. */
  diff: task('read', async () => (await import('./diff-upstream.ts')).diffUpstream),
  /** Verifies and repairs. */
  repair: task('change', async () => (await import('./repair.ts')).repair),
  /** The held deletions. */
  held: task('read', async () => (await import('./approve.ts')).listHeld),
  /** Lets held deletions go through. */
  approve: task('change', async () => (await import('./approve.ts')).approve),
  /** The targets among those named that may be forgotten. */
  forgettable: task('read', async () => (await import('./forget.ts')).listForgettable),
  /** Moves targets that are not mirrored any more to the history. */
  forget: task('change', async () => (await import('./forget.ts')).forget),
  /** The states that `prune` would remove. */
  prunable: task('read', async () => (await import('./prune.ts')).listPrunable),
  /** Removes states from the history. */
  prune: task('change', async () => (await import('./prune.ts')).prune),
  /** The repositories of the service. */
  repos: task('read', async () => (await import('./service-lists.ts')).listRepositories),
  /** Makes a repository in the service. */
  'repos/create': task('change', async () => (await import('./service-lists.ts')).addRepository),
  /** The workbooks of the service. */
  workbooks: task('read', async () => (await import('./service-lists.ts')).listWorkbooks),
  /** Finds out how the service behaves where its specification is silent. */
  probe: task('read', async () => (await import('./probe.ts')).probeService),
} satisfies {
  readonly [Name in keyof typeof REQUESTS]: {
    readonly kind: TaskKind;
    readonly run: (work: TaskWork, request: RequestOf<Name>) => Promise<unknown>;
  };
};

export type TaskName = keyof typeof TASKS;
/** The request of a task. */
export type TaskRequest<Name extends TaskName> = z.input<(typeof REQUESTS)[Name]>;
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
  const run: (work: TaskWork, request: never) => Promise<unknown> = TASKS[name].run;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the row of this name has this request and this result
  return (await run(work, REQUESTS[name].parse(wish) as never)) as TaskResult<Name>;
}
