import { WORKBOOKS_PATH } from '../api/requests.ts';
import { MirrorError } from '../model/errors.ts';
import { addressHint } from './failures.ts';
import type { Answer } from './transport.ts';

/** Reads a JSON answer. @throws MirrorError `service.wrong_kind` when it is something else, such as a login page. */
export async function readJson(answer: Answer): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  const body: AsyncIterable<unknown> = answer.body;
  for await (const chunk of body) if (chunk instanceof Uint8Array) chunks.push(chunk);
  const text = new TextDecoder().decode(Buffer.concat(chunks));
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrongKind(answer, kindOf(text, answer.headers['content-type']), cause);
  }
}

/** The error for an answer that is not of the kind that the API gives there. */
export function wrongKind(answer: Answer, kind: string, cause?: unknown): MirrorError {
  const { url } = answer;
  const v1Hint = url.pathname.includes(WORKBOOKS_PATH)
    ? ' If this installation has no v1, leave service.apiToken out.'
    : '';
  return new MirrorError(
    'service.wrong_kind',
    `${url.origin}${url.pathname} answered with ${kind} where the API gives JSON (status ${answer.status}).`,
    {
      cause,
      hint:
        kind === 'an HTML page'
          ? `${addressHint(url)} An HTML page may also be a login page of the service or of a proxy before it.${v1Hint}`
          : `${addressHint(url)}${v1Hint}`,
    },
  );
}

/** Names what an answer seems to be, for a person. */
export function kindOf(start: string, contentType: string | undefined): string {
  const text = start.trimStart();
  if (text === '') return 'nothing';
  if (/^<(?:!doctype html|html|head|body)/i.test(text) || contentType?.includes('text/html') === true) {
    return 'an HTML page';
  }
  if (text.startsWith('<')) return 'XML';
  if (text.startsWith('{') || text.startsWith('[')) return 'JSON';
  if (text.startsWith('PK')) return 'a zip archive';
  return 'something else';
}
