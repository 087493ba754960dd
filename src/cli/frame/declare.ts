import { type Command, Option } from 'commander';

import type { FlagSet } from '../settings/flag-sets.ts';
import type { Outcome } from './output.ts';

/** Carries a command out, with the arguments and flags of the parsed command. */
type Run = (command: Command) => Outcome | Promise<Outcome | void>;

const loaders = new WeakMap<Command, () => Promise<Run>>();

/** The settings of commands that have no flags for them yet. */
const pending = new WeakMap<Command, FlagSet>();

/**
 * Declares a command, whose description is shown below its summary. If it reads settings, it gets `--config` and the flags for the amount
 * of output. {@link addPendingFlags} adds the flags of the settings.
 * @param flags null for a command that reads no settings
 * @param load loads the code of the command, which no other command needs
 */
export function declare(
  parent: Command,
  name: string,
  flags: FlagSet | null,
  load: () => Promise<Run>,
): Command {
  const command = parent.command(name).action(() => {});
  loaders.set(command, load);
  if (flags === null) return command;
  pending.set(command, flags);
  return command
    .addOption(new Option('-q, --quiet', 'print only errors and requested output').conflicts('verbose'))
    .addOption(new Option('-v, --verbose', 'print every step'))
    .option('--config <file>', 'settings file (default: /etc/workbook-mirror/config.yaml)');
}

/** Declares a command whose outcome has data, as {@link declare}. */
export function report(...command: Parameters<typeof declare>): Command {
  return declare(...command).option('--json', 'print the result as JSON');
}

/** Carries out a parsed command. @throws MirrorError any error of the command */
export async function carryOut(command: Command): Promise<Outcome> {
  const run = await loaders.get(command)?.();
  return (await run?.(command)) ?? {};
}

/**
 * Gives a command the flags of its settings, before its arguments are parsed or its help is shown. The settings take longer to load
 * than all declarations together, and one command line rarely needs those of several commands.
 */
export async function addPendingFlags(command: Command): Promise<void> {
  const flags = pending.get(command);
  if (flags === undefined) return;
  pending.delete(command);
  const { addSettingsFlags } = await import('../settings/settings-flags.ts');
  addSettingsFlags(command, flags);
}

/** As {@link addPendingFlags}, for a command and all its subcommands. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
