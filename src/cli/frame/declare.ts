import { type Command, Option } from 'commander';

import type { FlagSet } from '../settings/flag-sets.ts';
import { addLoudnessFlags } from './loudness.ts';
import type { Outcome } from './output.ts';

/** Carries a command out: its arguments and flags are those of the command as it was parsed. */
export type Run = (command: Command) => Promise<Outcome | void>;

/** A command of the command line. */
export interface Declaration {
  readonly name: string;
  /** Null for a command that reads no settings. */
  readonly flags: FlagSet | null;
  /** One line that begins with a small letter and has no full stop. */
  readonly summary: string;
  readonly help: string;
  /** Loads the code of the command, which no other command needs. */
  readonly load: () => Promise<Run>;
}

/** The declaration of each command, and whether the flags of its settings are still to be added. */
const declarations = new WeakMap<Command, Declaration & { isPending: boolean }>();

/** Declares a group of commands, such as `history`. @param description where it is more than the summary */
export function declareGroup(
  program: Command,
  name: string,
  summary: string,
  description = summary,
): Command {
  return program.command(name).summary(summary).description(sentence(description));
}

/**
 * Declares a command with `--config` and, where it has any settings, the flags that say how much it prints. The flags of the
 * settings themselves follow with {@link addPendingFlags}.
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

/** Carries out a declared command that was parsed. @throws MirrorError any error of the command */
export async function carryOut(command: Command): Promise<Outcome> {
  const run = await declarations.get(command)?.load();
  return (await run?.(command)) ?? {};
}

/**
 * Gives a command the flags of its settings, before its part of a command line is parsed or its help is shown. The settings
 * take longer to load than all declarations together, and are seldom needed of more than one command.
 */
export async function addPendingFlags(command: Command): Promise<void> {
  const declaration = declarations.get(command);
  if (declaration === undefined || declaration.flags === null || !declaration.isPending) return;
  declaration.isPending = false;
  const { addSettingsFlags } = await import('../settings/settings-flags.ts');
  addSettingsFlags(command, declaration.flags);
}

/** As {@link addPendingFlags}, for a command and everything below it. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
