import { createHash } from 'node:crypto';

import { WORKBOOKS_PATH } from '../../lib/api/requests.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { formatDuration, formatSize } from '../../lib/text/units.ts';
import { STALLS_IN_ALL } from './body.ts';
import { addressHint, brokenOff } from './failures.ts';
import { announcedBytes } from './resume.ts';
import type { Answer, AnswerLimits } from './transport.ts';

/**
 * Reads a JSON answer.
 * @throws MirrorError `service.wrong_kind` when it is something else, such as a login page; and as {@link readWhole}
 */
export async function readJson(answer: Answer, limits: AnswerLimits): Promise<unknown> {
  return readWhole(answer, limits, (pieces) => parseJson(answer, pieces));
}

/**
 * Understands the bytes of a JSON answer.
 * @throws MirrorError `service.wrong_kind` when they are something else, such as a login page
 */
export function parseJson(answer: Answer, pieces: readonly Uint8Array[]): unknown {
  const text = new TextDecoder().decode(Buffer.concat(pieces));
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrongKind(answer, kindOf(text, answer.headers['content-type']), cause);
  }
}

/**
 * Reads the bytes of an answer as they come, of which the whole must be there within ten times the longest silence (see `body.ts`).
 * @param use is given them, which are used for other answers once it has returned
 * @throws MirrorError `service.answer_too_large`; `service.timeout`; `service.unreachable` when it breaks off
 */
export async function readWhole<Result>(
  answer: Answer,
  limits: AnswerLimits,
  use: (pieces: readonly Uint8Array[]) => Result,
): Promise<Result> {
  const pieces = await takeWhole(answer, limits);
  const result = use(pieces);
  for (const piece of pieces) answer.giveBack(piece);
  return result;
}

async function takeWhole(
  { body, headers, url }: Answer,
  { maxAnswerBytes, stallTimeoutMs, onProgress }: AnswerLimits,
): Promise<readonly Uint8Array[]> {
  if ((announcedBytes(headers) ?? 0) > maxAnswerBytes) throw tooLarge(url, maxAnswerBytes);
  const deadlineMs = stallTimeoutMs * STALLS_IN_ALL;
  const timer = setTimeout(() => body.destroy(tooSlow(url, deadlineMs)), deadlineMs);
  try {
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    const pieces: AsyncIterable<unknown> = body;
    for await (const chunk of pieces) {
      if (!(chunk instanceof Uint8Array)) continue;
      onProgress?.();
      sizeBytes += chunk.length;
      if (sizeBytes > maxAnswerBytes) throw tooLarge(url, maxAnswerBytes);
      chunks.push(chunk);
    }
    return chunks;
  } catch (error) {
    throw brokenOff(error, url);
  } finally {
    clearTimeout(timer);
  }
}

function tooLarge({ origin, pathname }: URL, maxBytes: number): MirrorError {
  return new MirrorError(
    'service.answer_too_large',
    `The answer of ${origin}${pathname} is greater than ${formatSize(maxBytes)}: setting service.maxAnswerSize.`,
    { hint: 'If so large an answer is right, raise service.maxAnswerSize.' },
  );
}

function tooSlow({ origin, pathname }: URL, durationMs: number): MirrorError {
  return new MirrorError(
    'service.timeout',
    `The answer of ${origin}${pathname} was not whole after ${formatDuration(durationMs)}.`,
    { hint: 'If the connection is always slow, raise service.stallTimeout.' },
  );
}

/** A strong digest of the bytes of an answer. */
export function digestOfBytes(pieces: readonly Uint8Array[]): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('base64');
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
