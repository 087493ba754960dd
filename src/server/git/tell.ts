import { toMirrorError } from '../../lib/errors/errors.ts';
import type { LogLevel } from '../../lib/process/streams.ts';
import { oneLine, withHint } from '../../lib/text/humanize.ts';

/** Reports something to the operator of the service, in one line. It may contain text that others wrote. */
export type Tell = (line: string, level?: LogLevel) => void;

/** The message of an error, in one line. */
export function reasonOf(error: unknown): string {
  return oneLine(toMirrorError(error).message);
}

/** The message of an error with its hint, in one line. */
export function adviceOf(error: unknown): string {
  const { message, hint = null } = toMirrorError(error);
  return withHint({ message, hint });
}
