import { parseArgs, type ParseArgsConfig } from 'node:util';

/** The command line is wrong; the message says what is needed. */
export class UsageError extends Error {}

type Flags = NonNullable<ParseArgsConfig['options']>;

/**
 * Reads flags, without anything beside them.
 * @throws UsageError for one that is not known, or that has no value where it needs one
 */
export function readFlags<const T extends Flags>(
  args: readonly string[],
  flags: T,
): ReturnType<typeof parseArgs<{ options: T }>>['values'] {
  try {
    return parseArgs({ args: [...args], options: flags }).values;
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}
