import type { Answer } from './answer.ts';
import type { ServiceRequest } from './handler.ts';
import type { Changes } from './library.ts';
import { RequestError } from './request-error.ts';

/** Answers a request that creates a repository. */
export async function answerCreate(_changes: Changes, _request: ServiceRequest): Promise<Answer> {
  throw new RequestError(501, 'not_implemented', 'not built yet');
}
