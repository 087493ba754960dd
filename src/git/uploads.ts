import type { Uploads } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import type { Git } from './git.ts';
import type { Registry } from './registry.ts';

/** Makes commits of what people upload to the repositories of a registry. */
export function createUploads(_git: Git, _registry: Registry): Uploads {
  const notYet = (): Promise<never> =>
    Promise.reject(new RequestError(501, 'not_implemented', 'not built yet'));
  return { branches: notYet, folder: notYet, receive: notYet, commit: notYet };
}
