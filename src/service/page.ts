import type { IncomingHttpHeaders } from 'node:http';

import type { Answer } from './answer.ts';
import { RequestError } from './request-error.ts';

/** The files of a page, by name. */
export type PageFiles = ReadonlyMap<string, { readonly contentType: string; readonly bytes: Uint8Array }>;

/** Answers a request for a file of the page. */
export function answerPage(_files: PageFiles | null, _name: string, _headers: IncomingHttpHeaders): Answer {
  throw new RequestError(404, 'not_found', 'there is no page here');
}
