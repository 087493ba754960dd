import { RequestError } from '../service/request-error.ts';
import type { Registry } from './registry.ts';

/**
 * Gives the bare repository of a repository that is there already.
 * @returns its absolute path
 * @throws RequestError 503 while it is cloned for the first time
 */
export function presentDirectory(registry: Registry, repositoryId: string): string {
  if (registry.activityOf(repositoryId) !== 'cloning') return registry.gitDirectory(repositoryId);
  const message = 'this repository is being cloned for the first time: its contents come when that is done';
  // Without Retry-After: clients take that for the service as a whole (RFC 9110, section 15.6.4).
  throw new RequestError(503, 'processing', message);
}
