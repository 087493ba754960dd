import type { Command, Option } from 'commander';

import { settingDescriptors } from '../../config/descriptors.ts';

/** The kind of value that may complete the end of a line: names of the mirror, words, or anything. */
export type Expected =
  | { readonly kind: 'file' | 'folder' | 'text' }
  /** Targets that are mirrored, those that the history keeps, or ids of keys of the embedded service. */
  | { readonly kind: 'target' | 'kept' | 'key' }
  /** Each word may have its meaning behind a tab. */
  | { readonly kind: 'words'; readonly words: readonly string[] };

/** The end of a line: the command that it leads to, and what may complete its last word. */
export interface LineEnd {
  readonly command: Command;
  readonly expected: Expected;
}

/**
 * Finds what may stand in place of the last word of a line.
 * @param program with the flags of all settings
 * @param words all after the program's name; the last may be empty
 */
export function endOfLine(program: Command, words: readonly string[]): LineEnd {
  const current = words.at(-1) ?? '';
  const { command, count, isBare, waiting } = walk(program, words.slice(0, -1));
  const [lead = ''] = isBare ? [] : (/^--[^=]*=/.exec(current) ?? []);
  const option = waiting ?? optionWithValue(command, lead.slice(0, -1));
  if (option !== undefined)
    return { command, expected: withLead(valueOf(option), waiting === undefined ? lead : '') };
  if (current.startsWith('-') && !isBare) return { command, expected: flagsOf(command) };
  return { command, expected: commandOrArgument(command, count) };
}

/** The command that words lead to, its arguments among them, whether `--` is, and the flag that waits for its value. */
function walk(
  program: Command,
  words: readonly string[],
): { command: Command; count: number; isBare: boolean; waiting: Option | undefined } {
  let command = program;
  let count = 0;
  let isBare = false;
  let waiting: Option | undefined;
  for (const word of words) {
    if (waiting !== undefined) waiting = undefined;
    else if (isBare) count += 1;
    else if (word === '--') isBare = true;
    else if (word.startsWith('-')) waiting = optionWithValue(command, word);
    else {
      const child = command.commands.find((each) => each.name() === word);
      count = child === undefined ? count + 1 : 0;
      command = child ?? command;
    }
  }
  return { command, count, isBare, waiting };
}

function optionWithValue(command: Command, flag: string): Option | undefined {
  return command.options.find(({ long, short, required }) => required && (flag === long || flag === short));
}

function withLead(expected: Expected, lead: string): Expected {
  if (expected.kind !== 'words') return expected;
  return { kind: 'words', words: expected.words.map((word) => lead + word) };
}

function valueOf({ long, flags, argChoices }: Option): Expected {
  const setting = settingDescriptors.find(({ flag }) => flag === long);
  const words = argChoices ?? setting?.choices;
  if (words !== undefined) return { kind: 'words', words };
  if (setting?.kind === 'path') return { kind: setting.fileOf === undefined ? 'folder' : 'file' };
  return { kind: flags.endsWith('<file>') ? 'file' : flags.endsWith('<folder>') ? 'folder' : 'text' };
}

function flagsOf(command: Command): Expected {
  const shown = command.createHelp().visibleOptions(command);
  const words = shown.flatMap(({ long, short, description }) =>
    [short, long].flatMap((flag) => (flag === undefined ? [] : [`${flag}\t${description}`])),
  );
  return { kind: 'words', words };
}

/** A command below this one or, behind so many others, an argument of it. */
function commandOrArgument(command: Command, count: number): Expected {
  const { commands, registeredArguments } = command;
  if (commands.length > 0)
    return { kind: 'words', words: commands.map((child) => `${child.name()}\t${child.summary()}`) };
  const argument = registeredArguments[count] ?? registeredArguments.at(-1);
  if (argument?.argChoices !== undefined) return { kind: 'words', words: argument.argChoices };
  return { kind: namesFor(argument?.name() ?? '', command) };
}

function namesFor(argument: string, command: Command): 'target' | 'kept' | 'key' | 'text' {
  const group = command.parent?.name();
  if (argument.startsWith('target')) return group === 'history' ? 'kept' : 'target';
  return group === 'keys' ? 'key' : 'text';
}
