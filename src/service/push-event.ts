import type { Answer } from './answer.ts';
import type { ServiceRequest } from './handler.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library } from './library.ts';
import { RequestError } from './request-error.ts';

/** Answers an incoming webhook. */
export async function answerPushEvent(
  _library: Library,
  _changes: Changes | null,
  _keys: readonly KnownKey[],
  _request: ServiceRequest,
): Promise<Answer> {
  throw new RequestError(501, 'not_implemented', 'not built yet');
}
