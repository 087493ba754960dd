import { type Command, Option } from 'commander';

import type { Need } from '../config/leaf.ts';
import type { ExitCode } from '../lib/errors/errors.ts';
import { addLoudnessFlags } from './loudness.ts';

/** Takes the exit code of a command that comes to its end. */
export type SetExitCode = (code: ExitCode) => void;

/**
 * Which settings a command has flags for: those of the daemon, all, or what it reads. The daemon's are the same for `run`, for a
 * `pass`, and for what reads or changes the `disk` alone, so that one line of flags fits them all; they differ in what their help shows.
 */
export type FlagSet = 'run' | 'pass' | 'disk' | 'all' | FlagList;

/** What a command that asks the service is given on a line. */
const SERVICE_ON_LINE = ['service.baseUrl', 'service.apiKeyFile', 'service.apiTokenFile'];
const PASS_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'publish'];
const RUN_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'schedule', 'log.level', 'http.listen'];

/** The settings that people give on a line, by their dotted names: the help of a command shows these, `--help-all` the others, too. */
export function settingsOnLine(set: FlagSet): readonly string[] {
  switch (set) {
    case 'run':
      return RUN_ON_LINE;
    case 'pass':
    case 'all':
      return PASS_ON_LINE;
    case 'disk':
      return ['directory', 'state'];
    default:
      return set.onLine;
  }
}

/** The settings that a command reads, as a list. */
interface FlagList {
  /** Settings, and sections of them, by their dotted names. */
  readonly reads: readonly string[];
  /** The parts that it cannot do without. */
  readonly needs: readonly Need[];
  /** Those that its help shows. */
  readonly onLine: readonly string[];
}

/** What a command reads that asks the service and has no mirror. */
export const SERVICE_FLAGS: FlagList = {
  reads: ['service'],
  needs: ['service'],
  onLine: SERVICE_ON_LINE,
};

/** The settings whose flags commands are still to be given. */
const pending = new WeakMap<Command, FlagSet>();

/**
 * Declares a command with `--config` and, where it has any settings, the flags that say how much it tells. The flags of the
 * settings themselves follow with {@link addPendingFlags}.
 */
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
  if (flags === null) return command;
  pending.set(command, flags);
  return addLoudnessFlags(command).addOption(
    new Option('--config <file>', 'settings file (default: /etc/workbook-mirror/config.yaml)'),
  );
}

/**
 * Gives a command the flags of its settings, before its part of a command line is parsed or its help is shown. What the settings
 * are takes longer to load than all commands together, and is seldom needed of more than one.
 */
export async function addPendingFlags(command: Command): Promise<void> {
  const flags = pending.get(command);
  if (flags === undefined) return;
  pending.delete(command);
  const { addSettingsFlags } = await import('./settings-flags.ts');
  addSettingsFlags(command, flags);
}

/** As {@link addPendingFlags}, for a command and everything below it. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
