import { RequestError } from '../http/request-error.ts';
import type { FetchProblem } from './fetches.ts';
import { RemoteError } from './remote-errors.ts';
import type { Registry } from './registry.ts';

/** Says why a repository cannot be read yet; what its server said is told, but nothing of this machine's own troubles. */
function describeAbsence(isDamaged: boolean, problem: FetchProblem | null): string {
  const when = isDamaged ? 'again, as the service could not read it any more' : 'for the first time';
  if (problem === null) return `this repository is being cloned ${when}: its contents come when that is done`;
  const { error, nextAttempt } = problem;
  const why = error instanceof RemoteError ? error.message : 'the service has an error, which its log names';
  const next = nextAttempt.toISOString();
  return `this repository is to be cloned ${when}, and that fails: ${why}; the next attempt is at ${next}`;
}

/**
 * Gives the bare repository of a repository that is there already.
 * @returns its absolute path
 * @throws RequestError 503 while it is cloned, for the first time or again
 */
export function presentDirectory(registry: Registry, repositoryId: string): string {
  if (registry.activityOf(repositoryId) !== 'cloning') return registry.gitDirectory(repositoryId);
  const row = registry.list().find(({ id }) => id === repositoryId);
  const message = describeAbsence(row?.damaged === true, registry.problemOf(repositoryId));
  // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
  throw new RequestError(503, 'processing', message);
}
