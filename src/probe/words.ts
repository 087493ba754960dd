import type { z } from 'zod';

import type { ProbeAnswer } from './connection.ts';

/** Guesses the kind of an answer by its first bytes, else by its media type. */
export function kindOf({ status, headers, body }: ProbeAnswer): string {
  if (status === 0) return 'no answer';
  if (body.length === 0) return 'empty';
  if (body.subarray(0, 2).toString('latin1') === 'PK') return 'zip archive';
  const start = body.subarray(0, 200).toString('utf8').trimStart();
  if (/^<(?:!doctype html|html|head|body)/i.test(start)) return 'HTML page';
  if (headers['content-type']?.includes('json') === true || /^[{[]/.test(start)) return 'JSON';
  return headers['content-type']?.includes('text/html') === true ? 'HTML page' : 'other';
}

/** Whether an answer is contents: a zip archive. */
export function isArchive(answer: ProbeAnswer): boolean {
  return answer.status === 200 && kindOf(answer) === 'zip archive';
}

/** Whether the media type is neither JSON nor HTML. */
export function isBinary({ headers }: ProbeAnswer): boolean {
  return !/json|html/i.test(headers['content-type'] ?? '');
}

/** Describes the first fault of a row, or of a part of it, with the name of the field; null for a row without fault. */
export function faultIn(schema: z.ZodType, row: unknown): string | null {
  const issue = schema.safeParse(row).error?.issues[0];
  return issue === undefined ? null : `${issue.path.join('.') || 'it'} ${issue.message}`;
}

/** The value of an answer in JSON; undefined for anything else. */
export function jsonOf({ body }: Pick<ProbeAnswer, 'body'>): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** The status and the kind of an answer: `404 JSON`. */
export function shapeOf(answer: ProbeAnswer): string {
  return answer.status === 0 ? kindOf(answer) : `${answer.status} ${kindOf(answer)}`;
}

const MOST_WORDS = 12;

/** Values with their counts: `modify 12, add 3`. Shows only values that look like a word. */
export function tally(values: readonly unknown[]): string {
  const words = values.map((value) =>
    typeof value === 'string' && /^[a-z][a-z_-]{0,19}$/i.test(value) ? value : '(no word)',
  );
  const counts = [...Map.groupBy(words, (word) => word)].map(([word, all]) => `${word} ${all.length}`);
  return counts.slice(0, MOST_WORDS).join(', ');
}
