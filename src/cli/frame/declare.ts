import { type Command, Option } from 'commander';

import type { FlagSet } from '../settings/flag-sets.ts';
import { addLoudnessFlags } from './loudness.ts';
import type { Outcome } from './output.ts';

/** Carries a command out, with the arguments and flags of the parsed command. */
export type Run = (command: Command) => Promise<Outcome | void>;

/** A command of the command line. */
export interface Declaration {
  readonly name: string;
  /** Null for a command that reads no settings. */
  readonly flags: FlagSet | null;
  /** One line without capital and full stop. */
  readonly summary: string;
  readonly help: string;
  /** Loads the code of the command, which no other command needs. */
  readonly load: () => Promise<Run>;
}

/** The declaration of each command, and whether the flags of its settings must still be added. */
const declarations = new WeakMap<Command, Declaration & { isPending: boolean }>();

/** Declares a group of commands, such as `history`. @param description if it is more than the summary */
export function declareGroup(
  program: Command,
  name: string,
  summary: string,
  description = summary,
): Command {
  return program.command(name).summary(summary).description(sentence(description));
}

/**
 * Declares a command. If it reads settings, it gets `--config` and the flags for the amount of output. {@link addPendingFlags} adds the
 * flags of the settings.
 */
export function declare(parent: Command, declaration: Declaration): Command {
  const { name, flags, summary, help } = declaration;
  const command = parent
    .command(name)
    .summary(summary)
    .description(`${sentence(summary)}\n\n${help}`)
    .action(() => {});
  declarations.set(command, { ...declaration, isPending: true });
  if (flags === null) return command;
  return addLoudnessFlags(command).addOption(
    new Option('--config <file>', 'settings file (default: /etc/workbook-mirror/config.yaml)'),
  );
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** Carries out a parsed command. @throws MirrorError any error of the command */
export async function carryOut(command: Command): Promise<Outcome> {
  const run = await declarations.get(command)?.load();
  return (await run?.(command)) ?? {};
}

/**
 * Gives a command the flags of its settings, before its arguments are parsed or its help is shown. The settings take longer to load
 * than all declarations together, and one command line rarely needs those of several commands.
 */
export async function addPendingFlags(command: Command): Promise<void> {
  const declaration = declarations.get(command);
  if (declaration === undefined || declaration.flags === null || !declaration.isPending) return;
  declaration.isPending = false;
  const { addSettingsFlags } = await import('../settings/settings-flags.ts');
  addSettingsFlags(command, declaration.flags);
}

/** As {@link addPendingFlags}, for a command and all its subcommands. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
