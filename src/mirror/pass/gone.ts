import { MirrorError } from '../../lib/errors/errors.ts';
import type { PullAction } from '../plan/actions.ts';
import { HEAD_BRANCH } from '../upstream/listing.ts';
import type { PassService } from '../upstream/client.ts';
import { type Reception, type RepositoryFacts, type EndedResult, resultOf } from './execution.ts';

/** The end of a pull of a target of which the service has no contents. @throws MirrorError as {@link refuseDoubtful} */
export async function notFound(reception: Reception, isCertain: boolean): Promise<EndedResult> {
  const { action } = reception;
  await refuseDoubtful(reception, isCertain);
  return resultOf(action, { kind: action.whenAbsent === 'accept' ? 'absent' : 'missing' });
}

/** Refuses an absence of contents that does not prove that the target is gone. @throws MirrorError `contents.not_found` */
export async function refuseDoubtful(reception: Reception, isCertain: boolean): Promise<void> {
  const { context, action, signal } = reception;
  if (action.whenAbsent === 'accept') return;
  const isProof =
    action.whenAbsent === 'count-as-missing' &&
    isCertain &&
    (await isReachable(context.service, action, reception, signal));
  if (!isProof) throw notFoundError(action);
}

/** Whether other contents of a repository are found: only then does a missing branch say something about the branch. */
export async function isReachable(
  service: Pick<PassService, 'exists'>,
  { target }: Pick<PullAction, 'target'>,
  { repository, branches }: Pick<RepositoryFacts, 'repository' | 'branches'>,
  signal: AbortSignal,
): Promise<boolean> {
  const others = branches.filter((branch) => branch !== target.branch);
  for (const branch of [HEAD_BRANCH, ...others]) {
    if (await service.exists({ repository, branch, path: '', signal })) return true;
  }
  return false;
}

/** The error of a branch without contents that may be there all the same. */
export function notFoundError({
  target,
  repository,
}: Pick<PullAction, 'target' | 'repository'>): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `The service has no contents for the branch ${JSON.stringify(target.branch)} of ${repository.fullName} (status 404).`,
    {
      hint: 'What is mirrored stays as it is. If the setting targets names this branch, check its spelling; otherwise the service contradicts its own lists.',
    },
  );
}
