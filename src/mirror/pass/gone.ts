import { MirrorError } from '../../lib/errors/errors.ts';
import { holdTogether, isApproved } from '../plan/guard.ts';
import type { Action, PullAction, RetireReason } from '../plan/actions.ts';
import { isRestored, mirroredTargets } from '../plan/retirements.ts';
import { emptyRecord } from '../plan/record.ts';
import { HEAD_BRANCH, targetKey } from '../upstream/listing.ts';
import { type Execution, failed, type Pull, type Reception } from './execution.ts';
import { type EndedResult, resultOf } from './results.ts';

/** A tree that is to leave the mirror. */
export interface Retirement {
  readonly action: Action;
  readonly target: Action['target'];
  readonly reason: RetireReason;
}

/**
 * The service has no contents for the target: what that means depends on what else it says.
 * @returns null when the target's time has come
 */
export async function notFound(pull: Pull, isCertain: boolean): Promise<EndedResult | null> {
  const { action, record, policy } = pull;
  await refuseDoubtful(pull, isCertain);
  if (action.whenAbsent === 'accept') return resultOf(action, { kind: 'absent' });
  const isDue = record.missingPasses + 1 >= policy.retireAfterPasses;
  return isDue ? null : resultOf(action, { kind: 'missing' });
}

/** Refuses an absence of contents that does not prove that the target is gone. @throws MirrorError `contents.not_found` */
export async function refuseDoubtful(reception: Reception, isCertain: boolean): Promise<void> {
  const { action } = reception;
  if (action.whenAbsent === 'accept') return;
  const isProof =
    action.whenAbsent === 'count-as-missing' && isCertain && (await isRepositoryReachable(reception));
  if (!isProof) throw notFoundError(action);
}

/** Whether other contents of a repository are found: only then does a missing branch say something about the branch. */
async function isRepositoryReachable({
  context,
  action,
  repository,
  branches,
  signal,
}: Reception): Promise<boolean> {
  const others = branches.filter((branch) => branch !== action.target.branch);
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

/**
 * The branch HEAD gives way to a named branch that is mirrored, a duplicate to its double, a copy to another instance's: the target
 * stays. A forgotten one goes because a person named it.
 */
const NOT_GUARDED: ReadonlySet<RetireReason> = new Set(['branch-known', 'duplicate', 'moved', 'forgotten']);

/** Retires what is gone, except what the guard holds because it is too much at once. Gives a result for each, in their order. */
export async function retireAll(
  execution: Execution,
  retirements: readonly Retirement[],
): Promise<EndedResult[]> {
  const { plan, policy, records, approvals } = execution;
  const total = mirroredTargets(plan);
  const deletions = retirements.filter(({ reason }) => !NOT_GUARDED.has(reason));
  const limit = policy.guard.targets;
  const held = new Set(holdTogether('target', deletions, { total, others: 0, limit, approvals, records }));
  const results: EndedResult[] = [];
  for (const retirement of retirements) {
    const { action, target } = retirement;
    const record = records.get(targetKey(target)) ?? emptyRecord(target);
    if (isRestored(action.published, record, approvals)) {
      const deletion = { subject: 'restored', deletions: 1, of: total, digest: null } as const;
      results.push(resultOf(action, { kind: 'guarded', held: deletion, fingerprint: action.fingerprint }));
    } else if (held.has(retirement)) {
      const deletion = { subject: 'target', deletions: held.size, of: total, digest: null } as const;
      results.push(resultOf(action, { kind: 'guarded', held: deletion, fingerprint: action.fingerprint }));
    } else results.push(await retireOne(execution, retirement));
  }
  return results;
}

/** Moves a tree out of the mirror, unless another repository's stands in its place by now. */
async function retireOne(execution: Execution, { action, target, reason }: Retirement): Promise<EndedResult> {
  const { context, approvals, signal } = execution;
  try {
    const manifest = await context.store.manifest(action.path);
    const isStillThere = manifest?.repository.id === target.repositoryId && manifest.branch === target.branch;
    if (isStillThere) {
      const subject = 'target';
      if (isApproved(approvals, target, { subject, digest: null }))
        context.emit({ name: 'deletion.approved', target: action.path, subject });
      await context.store.retire(action.path, signal);
      context.emit({ name: 'target.retired', target: action.path, reason });
    }
    return resultOf(action, { kind: 'retired' });
  } catch (error) {
    return failed(execution, action, error);
  }
}
