import { homedir } from 'node:os';
import { buffer } from 'node:stream/consumers';

import type { Command } from 'commander';

import { printable } from '../../lib/text/humanize.ts';
import { escapedLines, joined, joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { readTopics } from '../../manual/chapters.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { addAllPendingFlags } from '../frame/declare.ts';
import type { Outcome } from '../frame/output.ts';
import { programOf } from '../help/help-screen.ts';
import { keysOf } from '../service/keys.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { endOfLine, type Expected, type LineEnd } from './expected.ts';
import { SCRIPTS, SHELLS } from './scripts.ts';

/** `completion` */
export async function runCompletion(command: Command): Promise<Outcome> {
  const shell = SHELLS.find((each) => each === command.args[0]);
  if (shell !== undefined) return { text: () => escapedLines(SCRIPTS[shell]) };
  const program = programOf(command);
  await addAllPendingFlags(program);
  const words = (await buffer(process.stdin)).toString().split('\0').slice(0, -1);
  // The words are as they stand on the line, where the shell has yet to replace this.
  const expanded = words.map((word) => word.replace(/^~(?=\/|$)/, homedir()));
  const lines = await answer(endOfLine(program, expanded), expanded.slice(0, -1));
  return { text: () => joinLines(lines) };
}

/**
 * The answer to a shell.
 * @returns lines: `file` or `folder`, or `words` and then each word, with a tab and its meaning where there is more to say
 */
async function answer({ command, expected }: LineEnd, before: readonly string[]): Promise<TerminalText[]> {
  if (expected.kind === 'file' || expected.kind === 'folder') return [say`${expected.kind}`];
  const isTopic = expected.kind === 'text' && command.name() === 'help';
  const words =
    expected.kind === 'words'
      ? expected.words
      : isTopic
        ? helpNames(command)
        : expected.kind === 'text'
          ? []
          : await namesOf(expected.kind, command, before);
  return [say`words`, ...words.map((word) => joined(word.split('\t'), say`\t`))];
}

/** The commands and topics that `help` explains. */
function helpNames(help: Command): string[] {
  const commands = programOf(help).commands.map((command) => command.name());
  return [...new Set([...commands, ...readTopics().map(({ name }) => name)])];
}

/** Names from the disk alone: those that a shell shows as they are, and does not take for flags. */
async function namesOf(
  kind: Exclude<Expected['kind'], 'file' | 'folder' | 'text' | 'words'>,
  command: Command,
  before: readonly string[],
): Promise<string[]> {
  // They say where the mirror is.
  command.parseOptions([...before]);
  const names = kind === 'key' ? await keyIdsOf(command) : await pathsOf(kind, command);
  return [...new Set(names)].sort().filter((name) => printable(name) === name && !name.startsWith('-'));
}

async function keyIdsOf(command: Command): Promise<readonly string[]> {
  return (await keysOf(settingsOf(command, []).settings.serve)).map(({ id }) => id);
}

async function pathsOf(kind: 'target' | 'kept', command: Command): Promise<readonly string[]> {
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  return kind === 'target' ? manifestPaths(layout) : (await readHistory(layout)).map(({ path }) => path);
}
