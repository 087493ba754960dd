import type { Conversations } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import type { Git } from './git.ts';
import type { Registry } from './registry.ts';

/** Answers git clients from the repositories of a registry. */
export function createConversations(_git: Git, _registry: Registry): Conversations {
  const notYet = (): never => {
    throw new RequestError(501, 'not_implemented', 'not built yet');
  };
  return { advertise: notYet, converse: notYet };
}
