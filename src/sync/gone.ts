import { MirrorError } from '../model/errors.ts';
import type { PullAction, RetireAction } from '../model/plan.ts';
import { HEAD_BRANCH, targetKey } from '../model/service.ts';
import { type ActionResult, type Execution, failed, resultOf } from './execution.ts';
import type { StagePort } from './ports.ts';
import { record } from './remember.ts';

/** The service has no contents for the target: what that means depends on what else it says. */
export async function notFound<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: PullAction,
  isCertain: boolean,
): Promise<ActionResult> {
  switch (action.whenAbsent) {
    case 'accept':
      return resultOf(action, { kind: 'absent' });
    case 'count-as-missing': {
      if (!isCertain || !(await isRepositoryReachable(execution, action))) throw notFoundError(action);
      const before = execution.records.get(targetKey(action.target))?.missingPasses ?? 0;
      if (before + 1 < execution.policy.retireAfterPasses) return resultOf(action, { kind: 'missing' });
      await execution.context.store.retire(action.path);
      execution.context.emit({ name: 'target.retired', target: action.path, reason: 'branch-gone' });
      return resultOf(action, { kind: 'retired' });
    }
    case 'fail':
      throw notFoundError(action);
  }
}

/** Whether other contents of a repository are found: only then does a missing branch say something about the branch. */
async function isRepositoryReachable<Stage extends StagePort>(
  { context, repositories, plan, signal }: Execution<Stage>,
  { target }: PullAction,
): Promise<boolean> {
  const repository = repositories.get(target.repositoryId);
  if (repository === undefined) return false;
  const others = plan
    .filter(
      (each) => each.target.repositoryId === target.repositoryId && each.target.branch !== target.branch,
    )
    .map((each) => each.target.branch);
  for (const branch of [HEAD_BRANCH, ...others]) {
    if (await context.service.exists({ repository, branch, path: '', signal })) return true;
  }
  return false;
}

function notFoundError(action: PullAction): MirrorError {
  const { branch } = action.target;
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(branch)} of ${action.repository.fullName} (status 404).`,
    {
      hint: 'What is mirrored stays as it is. If the setting targets names this branch, check its spelling; otherwise the service contradicts its own lists.',
    },
  );
}

/** Moves a tree out of the mirror, unless another repository's stands in its place by now. */
export async function retireOne<Stage extends StagePort>(
  execution: Execution<Stage>,
  action: RetireAction,
): Promise<ActionResult> {
  const { context, signal } = execution;
  try {
    const manifest = await context.store.manifest(action.path);
    const isStillThere =
      manifest?.repository.id === action.target.repositoryId && manifest.branch === action.target.branch;
    if (isStillThere) {
      await context.store.retire(action.path);
      context.emit({ name: 'target.retired', target: action.path, reason: action.reason });
    }
    return resultOf(action, { kind: 'retired' });
  } catch (error) {
    const result = resultOf(action, failed(error, action, signal));
    await record(execution, [result]);
    return result;
  }
}
