import type { Answer } from './answer.ts';
import type { ServiceRequest } from './handler.ts';
import type { KnownKey } from './keys.ts';
import type { Changes, Library } from './library.ts';
import { RequestError } from './request-error.ts';

/** Answers what the page asks for. */
export async function answerUploads(
  _library: Library,
  _changes: Changes,
  _keys: readonly KnownKey[],
  _segments: readonly string[],
  _request: ServiceRequest,
): Promise<Answer> {
  throw new RequestError(501, 'not_implemented', 'not built yet');
}
