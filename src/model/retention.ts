import { MirrorError } from './errors.ts';
import { formatDuration, parseDuration } from './units.ts';

/** How much of a target's history is kept. */
export type Retention =
  | { readonly kind: 'off' }
  | { readonly kind: 'forever' }
  /** So many of the latest. */
  | { readonly kind: 'count'; readonly count: number }
  /** What is not older; milliseconds. */
  | { readonly kind: 'age'; readonly ageMs: number };

const COUNT = /^\d{1,6}$/;
const EXPECTED = 'expected a number such as 10, a duration such as 30d, forever, or off';

/** Reads a retention. @throws MirrorError `usage.invalid`; the message says what is expected */
export function parseRetention(text: string): Retention {
  const trimmed = text.trim();
  if (trimmed === 'off' || trimmed === '0') return { kind: 'off' };
  if (trimmed === 'forever') return { kind: 'forever' };
  if (COUNT.test(trimmed)) return { kind: 'count', count: Number(trimmed) };
  try {
    return { kind: 'age', ageMs: parseDuration(trimmed) };
  } catch (cause) {
    throw new MirrorError('usage.invalid', EXPECTED, { cause });
  }
}

/** Writes a retention so that {@link parseRetention} gives the same one back. */
export function formatRetention(retention: Retention): string {
  switch (retention.kind) {
    case 'off':
    case 'forever':
      return retention.kind;
    case 'count':
      return String(retention.count);
    case 'age':
      return formatDuration(retention.ageMs);
  }
}
