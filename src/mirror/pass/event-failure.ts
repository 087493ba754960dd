import { toMirrorError } from '../../lib/errors/errors.ts';
import type { EventFailure } from './events.ts';

/** What went wrong, as an event carries it. */
export function eventFailure(error: unknown): EventFailure {
  const { code, message, hint } = toMirrorError(error);
  return { code, message, hint: hint ?? null };
}
