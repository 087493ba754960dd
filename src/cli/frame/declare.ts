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
  /** Loads what carries it out: much, which no other command needs. */
  readonly load: () => Promise<Run>;
}

const declarations = new WeakMap<Command, Declaration>();

/** The commands that have the flags of their settings. */
const completed = new WeakSet<Command>();

/**
 * Declares a command with `--config` and, where it has any settings, the flags that say how much it tells. The flags of the
 * settings themselves follow with {@link addPendingFlags}.
 */
export function declare(parent: Command, declaration: Declaration): Command {
  const { name, flags, summary, help } = declaration;
  const command = parent
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.\n\n${help}`)
    .action(() => {});
  declarations.set(command, declaration);
  if (flags === null) return command;
  return addLoudnessFlags(command).addOption(
    new Option('--config <file>', 'settings file (default: /etc/workbook-mirror/config.yaml)'),
  );
}

/** Carries out a declared command that was parsed. @throws MirrorError whatever it meets */
export async function carryOut(command: Command): Promise<Outcome> {
  const run = await declarations.get(command)?.load();
  return (await run?.(command)) ?? {};
}

/**
 * Gives a command the flags of its settings, before its part of a command line is parsed or its help is shown. The settings
 * take longer to load than all declarations together, and are seldom needed of more than one command.
 */
export async function addPendingFlags(command: Command): Promise<void> {
  const flags = declarations.get(command)?.flags ?? null;
  if (flags === null || completed.has(command)) return;
  completed.add(command);
  const { addSettingsFlags } = await import('../settings/settings-flags.ts');
  addSettingsFlags(command, flags);
}

/** As {@link addPendingFlags}, for a command and everything below it. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
