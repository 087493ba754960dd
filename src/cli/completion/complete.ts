import { buffer } from 'node:stream/consumers';

import type { Command } from 'commander';

import { bashCompletion } from './bash.ts';
import { fishCompletion } from './fish.ts';
import { expectedAt } from './line.ts';
import { zshCompletion } from './zsh.ts';
import { keyFolderOf, readKeyFolder } from '../../server/keys/key-folder.ts';
import { printable } from '../../lib/text/humanize.ts';
import { escapedLines, joined, joinLines, say, type Shown } from '../../lib/text/terminal-text.ts';
import { readHistory } from '../../mirror/store/history/history.ts';
import { manifestPaths } from '../../mirror/store/inventory.ts';
import { layoutOf } from '../../mirror/store/layout.ts';
import { type CommandNode, commandTree } from './command-tree.ts';
import { addAllPendingFlags } from '../frame/declare.ts';
import { programOf } from '../help/help-screen.ts';
import { keyIds } from '../service/keys.ts';
import type { Outcome } from '../frame/output.ts';
import { NAMES, SHELLS } from './names.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { readTopics } from '../../manual/chapters.ts';
import { requiredServeDirectory } from '../../server/start/directory.ts';

const SCRIPTS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

/** `completion` */
export async function runCompletion(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const shell = SHELLS.find((each) => each === asked);
  if (shell !== undefined) return { text: () => escapedLines(SCRIPTS[shell]()) };
  const names = NAMES.find((each) => each === asked);
  const lines = names === undefined ? await answerLine(command) : await namesFor(names, command);
  return lines.length === 0 ? {} : { text: () => joinLines(lines) };
}

/**
 * Answers a shell that asks what may stand at the end of a line, whose words come on standard input, each with a NUL behind it.
 * @param command takes the flags of the line that say where the mirror is
 * @returns lines: `file` or `folder`, or `words` and then each word, with a tab and what it means where there is more to say
 */
async function answerLine(command: Command): Promise<readonly Shown[]> {
  const program = programOf(command);
  await addAllPendingFlags(program);
  const words = (await buffer(process.stdin)).toString().split('\0').slice(0, -1);
  const { value, lead, places } = expectedAt(withHelpNames(commandTree(program)), words);
  if (value.kind === 'file' || value.kind === 'folder') return [value.kind];
  if (value.kind === 'text') return ['words'];
  if (value.kind === 'choice')
    return ['words', ...value.choices.map((choice) => joined((lead + choice).split('\t'), say`\t`))];
  command.parseOptions([...places]);
  return ['words', ...(await namesFor(NAMED[value.kind], command))];
}

/** The list of names to look up for each kind of value. */
const NAMED = { target: 'targets', kept: 'history', key: 'keys' } as const;

/** The tree with what `help` explains: its commands, and the topics of the manual. */
function withHelpNames(tree: CommandNode): CommandNode {
  const names = [...tree.children.map(({ name }) => name), ...readTopics().map(({ name }) => name)];
  const argument = { kind: 'choice', choices: [...new Set(names)] } as const;
  return {
    ...tree,
    children: tree.children.map((node) => (node.path === 'help' ? { ...node, arguments: [argument] } : node)),
  };
}

/** The names that a shell offers, from the disk alone: those that read as what they are, and are not taken for flags. */
async function namesFor(what: (typeof NAMES)[number], command: Command): Promise<readonly string[]> {
  const names = what === 'keys' ? await keysOf(command) : await pathsOf(what, command);
  return names.filter((name) => printable(name) === name && !name.startsWith('-'));
}

async function keysOf(command: Command): Promise<readonly string[]> {
  const { serve } = settingsOf(command, []).settings;
  return keyIds(await readKeyFolder(keyFolderOf(requiredServeDirectory(serve))));
}

async function pathsOf(what: 'targets' | 'history', command: Command): Promise<readonly string[]> {
  const layout = layoutOf(settingsOf(command, ['directory']).settings.directory);
  const names =
    what === 'targets' ? await manifestPaths(layout) : (await readHistory(layout)).map(({ path }) => path);
  return [...new Set(names)].sort();
}
