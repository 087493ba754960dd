import type { Command } from 'commander';

import type { ExitCode } from '../model/errors.ts';
import { addLoudnessFlags } from './loudness.ts';
import { addSettingsFlags, type FlagSet } from './settings-flags.ts';

/** Takes the exit code of a command that comes to its end. */
export type SetExitCode = (code: ExitCode) => void;

/** Declares a command with its settings' flags and, where it has any, those that say how much it tells. */
export function declare(
  parent: Command,
  name: string,
  flags: FlagSet | null,
  summary: string,
  help: string,
): Command {
  const command = parent
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.\n\n${help}`);
  return flags === null ? command : addSettingsFlags(addLoudnessFlags(command), flags);
}
