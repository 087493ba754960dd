import type { Command } from 'commander';

import { bashCompletion } from './completion/bash.ts';
import { fishCompletion } from './completion/fish.ts';
import type { CommandNode } from './completion/tree.ts';
import { zshCompletion } from './completion/zsh.ts';
import type { Settings, SettingsFor } from '../config/schema.ts';
import { keyFolderOf, readKeyFolder } from '../server/keys/key-folder.ts';
import { printable } from '../lib/text/humanize.ts';
import { escapedLines, joinLines } from '../lib/text/terminal-text.ts';
import { readHistory } from '../mirror/store/history/history.ts';
import { manifestPaths } from '../mirror/store/inventory.ts';
import { layoutOf } from '../mirror/store/layout.ts';
import { commandTree } from './command-tree.ts';
import { addAllPendingFlags } from './declare.ts';
import { programOf } from './help-screen.ts';
import { keyIds } from './keys.ts';
import type { Outcome } from './output.ts';
import { SHELLS } from './program-commands.ts';
import { settingsOf } from './settings-flags.ts';
import { topicNames } from '../manual/chapters.ts';
import { requiredServeDirectory } from '../server/start/directory.ts';

type Shell = (typeof SHELLS)[number];

/** `completion` */
export async function runCompletion(command: Command): Promise<Outcome> {
  const [asked = ''] = command.args;
  const shell = SHELLS.find((each) => each === asked);
  if (shell !== undefined) {
    const program = programOf(command);
    await addAllPendingFlags(program);
    return { text: () => escapedLines(completionFor(shell, program)) };
  }
  const names =
    asked === 'keys'
      ? await keysFor(settingsOf(command, []).settings)
      : await namesFor(
          asked === 'history' ? 'history' : 'targets',
          settingsOf(command, ['directory']).settings,
        );
  return names.length === 0 ? {} : { text: () => joinLines(names) };
}

/** The script that completes the command line of a program in a shell. */
function completionFor(shell: Shell, program: Command): string {
  const tree = withHelpNames(commandTree(program));
  switch (shell) {
    case 'bash':
      return bashCompletion(tree);
    case 'zsh':
      return zshCompletion(tree);
    case 'fish':
      return fishCompletion(tree);
  }
}

/** The tree with what `help` explains: its commands, and the topics of the manual. */
function withHelpNames(tree: CommandNode): CommandNode {
  const names = [...tree.children.map(({ name }) => name), ...topicNames()];
  const argument = { kind: 'choice', choices: [...new Set(names)] } as const;
  return {
    ...tree,
    children: tree.children.map((node) => (node.path === 'help' ? { ...node, argument } : node)),
  };
}

/** The names that a shell offers, from the disk alone. */
async function namesFor(
  what: 'targets' | 'history',
  settings: SettingsFor<'directory'>,
): Promise<readonly string[]> {
  const layout = layoutOf(settings.directory);
  const names =
    what === 'targets' ? await manifestPaths(layout) : (await readHistory(layout)).map(({ path }) => path);
  return [...new Set(names)].filter(isOffered).sort();
}

/** The ids of the keys that a shell offers, from the disk alone. */
async function keysFor({ serve }: Settings): Promise<readonly string[]> {
  const content = await readKeyFolder(keyFolderOf(requiredServeDirectory(serve)));
  return keyIds(content).filter(isOffered);
}

/** Whether a name can be completed: it reads as what it is, and the program does not take it for a flag. */
function isOffered(name: string): boolean {
  return printable(name) === name && !name.startsWith('-');
}
