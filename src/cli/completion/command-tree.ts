import type { Argument, Command, Option } from 'commander';

import { settingDescriptors } from '../../config/descriptors.ts';

/** The kind of value that a flag or an argument takes. */
export type Value =
  | { readonly kind: 'file' | 'folder' | 'text' }
  /** Targets that are mirrored, those that the history keeps, or ids of keys of the embedded service. */
  | { readonly kind: 'target' | 'kept' | 'key' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] };

/** A flag of a command. */
export interface Flag {
  /** With its dashes. */
  readonly long: string;
  readonly short: string | undefined;
  /** One line. */
  readonly description: string;
  /** Null for a flag that stands alone. */
  readonly value: Value | null;
}

/** A command with what may follow it. */
export interface CommandNode {
  readonly name: string;
  /** The words that lead to it, without the program's name: `history restore`. */
  readonly path: string;
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** The kinds of its arguments, in their order; the last is that of all further ones. */
  readonly arguments: readonly Value[];
  readonly children: readonly CommandNode[];
}

/** A command and all below it. */
export function everyNode(node: CommandNode): CommandNode[] {
  return [node, ...node.children.flatMap(everyNode)];
}

const settingsByFlag = new Map(settingDescriptors.map((setting) => [setting.flag, setting]));

/** A command line interface as data: its commands with their flags and arguments. */
export function commandTree(command: Command, parents: readonly string[] = []): CommandNode {
  const names = command.parent === null ? [] : [...parents, command.name()];
  const path = names.join(' ');
  const help = command.createHelp();
  return {
    name: command.name(),
    path,
    summary: command.summary(),
    flags: help.visibleOptions(command).flatMap(flagOf),
    arguments: command.registeredArguments.map((argument) => argumentValue(argument, path)),
    children: command.commands.map((child) => commandTree(child, names)),
  };
}

function flagOf(option: Option): Flag[] {
  const { long, short, description } = option;
  if (long === undefined) return [];
  return [{ long, short, description, value: option.required ? optionValue(option) : null }];
}

function optionValue({ long, flags, argChoices }: Option): Value {
  const setting = settingsByFlag.get(long ?? '');
  const choices = argChoices ?? setting?.choices;
  if (choices !== undefined) return { kind: 'choice', choices };
  if (setting?.kind === 'path') return { kind: setting.fileOf === undefined ? 'folder' : 'file' };
  if (flags.endsWith('<file>')) return { kind: 'file' };
  return { kind: flags.endsWith('<folder>') ? 'folder' : 'text' };
}

function argumentValue(argument: Argument, path: string): Value {
  if (argument.argChoices !== undefined) return { kind: 'choice', choices: argument.argChoices };
  if (path === 'keys revoke') return { kind: 'key' };
  if (!argument.name().startsWith('target')) return { kind: 'text' };
  return { kind: path.startsWith('history') ? 'kept' : 'target' };
}
