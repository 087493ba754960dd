import { homedir } from 'node:os';
import { buffer } from 'node:stream/consumers';

import type { Command, Option } from 'commander';

import { settingDescriptors } from '../../config/descriptors.ts';
import { printable } from '../../lib/text/humanize.ts';
import { escaped, escapedLines, joinLines } from '../../lib/text/terminal-text.ts';
import { readTopics } from '../../manual/chapters.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { addAllPendingFlags } from '../frame/declare.ts';
import type { Outcome } from '../frame/output.ts';
import { programOf } from '../help/help-screen.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { SCRIPTS, SHELLS } from './scripts.ts';

/** `completion` */
export async function runCompletion(command: Command): Promise<Outcome> {
  const shell = SHELLS.find((each) => each === command.args[0]);
  if (shell !== undefined) return { text: () => escapedLines(SCRIPTS[shell]) };
  const program = programOf(command);
  await addAllPendingFlags(program);
  const words = (await buffer(process.stdin)).toString().split('\0').slice(0, -1);
  // The shell has not yet replaced this word.
  const found = await completionsOf(
    program,
    words.map((word) => word.replace(/^~(?=\/|$)/, homedir())),
  );
  return { text: () => (found.length === 0 ? null : joinLines(found.map(escaped))) };
}

/**
 * The words that may replace the last word of a line.
 * @param program with the flags of all settings
 * @param words all words after the program's name; the last may be empty
 * @returns none if the shell must offer files
 */
export async function completionsOf(program: Command, words: readonly string[]): Promise<readonly string[]> {
  const before = words.slice(0, -1);
  const current = words.at(-1) ?? '';
  const command = before.reduce(
    (at, word) => at.commands.find((each) => each.name() === word) ?? at,
    program,
  );
  if (!before.includes('--')) {
    const [lead = ''] = /^--[^=]*=/.exec(current) ?? [];
    const flag = lead === '' ? before.at(-1) : lead.slice(0, -1);
    const option = command.options.find(
      ({ long, short, required }) => required && [long, short].includes(flag),
    );
    if (option !== undefined) return choicesOf(option).map((word) => lead + word);
    if (current.startsWith('-'))
      return command
        .createHelp()
        .visibleOptions(command)
        .flatMap(({ long }) => long ?? []);
  }
  const children = command.commands.map((child) => child.name());
  if (children.length > 0) return children;
  if (command.name() === 'help')
    return [...program.commands.map((each) => each.name()), ...readTopics().map(({ name }) => name)];
  const argument = command.registeredArguments[0];
  if (argument?.name().startsWith('target') !== true) return argument?.argChoices ?? [];
  // These flags locate the mirror.
  command.parseOptions([...before]);
  return targetNames(command);
}

function choicesOf({ long, argChoices }: Option): readonly string[] {
  return argChoices ?? settingDescriptors.find(({ flag }) => flag === long)?.choices ?? [];
}

/** Names of targets, from the disk, that a shell shows unchanged and does not take for flags. */
async function targetNames(command: Command): Promise<readonly string[]> {
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const names =
    command.parent?.name() === 'history'
      ? (await readHistory(layout)).map(({ path }) => path)
      : await manifestPaths(layout);
  return [...new Set(names)].sort().filter((name) => printable(name) === name && !name.startsWith('-'));
}
