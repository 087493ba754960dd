import { type Command, Option } from 'commander';

import type { Need } from '../config/metadata.ts';
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

/** The settings that a command has flags for. */
export interface FlagSet {
  /** Settings, and sections of them, by their dotted names; `mirror` for all but those of the embedded service. */
  readonly reads: readonly string[] | 'mirror' | 'all';
  /** The parts that it cannot do without. */
  readonly needs: readonly Need[];
  /** Those that people give on a line: the help of a command shows these, `--help-all` the others, too. */
  readonly onLine: readonly string[];
}

const SERVICE_ON_LINE = ['service.baseUrl', 'service.apiKeyFile', 'service.apiTokenFile'];
const PASS_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'publish'];
const RUN_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'schedule', 'log.level', 'http.listen'];

// The flags of a mirror are the same for all three, so that one line of them fits every command; they differ in what help shows.
const MIRROR = { reads: 'mirror', needs: ['service', 'directory'] } as const;
/** The flags of the daemon. */
export const RUN_FLAGS: FlagSet = { ...MIRROR, onLine: RUN_ON_LINE };
/** The flags of a command that makes or plans a pass. */
export const PASS_FLAGS: FlagSet = { ...MIRROR, onLine: PASS_ON_LINE };
/** The flags of a command that reads the disk and, where it is asked to, the service. */
export const LOOK_FLAGS: FlagSet = { ...MIRROR, onLine: [...SERVICE_ON_LINE, 'directory'] };
/** The flags of a command that reads or changes the disk alone. */
export const DISK_FLAGS: FlagSet = { ...MIRROR, onLine: ['directory', 'state'] };
/** The flags of a command on the settings themselves. */
export const ALL_FLAGS: FlagSet = { ...PASS_FLAGS, reads: 'all' };
/** The flags of a command that asks the service and has no mirror. */
export const SERVICE_FLAGS: FlagSet = { reads: ['service'], needs: ['service'], onLine: SERVICE_ON_LINE };

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
  const { addSettingsFlags } = await import('./settings-flags.ts');
  addSettingsFlags(command, flags);
}

/** As {@link addPendingFlags}, for a command and everything below it. */
export async function addAllPendingFlags(command: Command): Promise<void> {
  await addPendingFlags(command);
  for (const child of command.commands) await addAllPendingFlags(child);
}
