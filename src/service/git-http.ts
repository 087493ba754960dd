import type { Answer } from './answer.ts';
import type { ServiceRequest } from './handler.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library } from './library.ts';
import { RequestError } from './request-error.ts';
import type { Route } from './routes.ts';

/** Answers a git client. */
export async function answerGit(
  _library: Library,
  _changes: Changes,
  _keys: readonly KnownKey[],
  _route: Extract<Route, { kind: 'git' }>,
  _request: ServiceRequest,
): Promise<Answer> {
  throw new RequestError(501, 'not_implemented', 'not built yet');
}
