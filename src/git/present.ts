import { RequestError } from '../service/request-error.ts';
import type { Registry } from './registry.ts';

/** When to ask again for what is being cloned, in seconds. */
const CLONING_RETRY_SECONDS = 10;

/**
 * Gives the bare repository of a repository that is there already.
 * @returns its absolute path
 * @throws RequestError 503 while it is cloned for the first time
 */
export function presentDirectory(registry: Registry, repositoryId: string): string {
  if (registry.activityOf(repositoryId) !== 'cloning') return registry.gitDirectory(repositoryId);
  const message = 'this repository is being cloned for the first time: its contents come when that is done';
  throw new RequestError(503, 'processing', message, { 'retry-after': String(CLONING_RETRY_SECONDS) });
}
