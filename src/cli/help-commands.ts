import { Argument, type Command, InvalidArgumentError } from 'commander';

import { printable } from '../lib/text/humanize.ts';
import { escapedLines, joinLines } from '../lib/text/terminal-text.ts';
import { addAllPendingFlags, addPendingFlags, declare } from './declare.ts';
import { showWhole } from './help-screen.ts';
import { printData } from './output.ts';
import { packageVersion } from '../lib/process/version.ts';

/** Declares the commands that explain the program, to people and to their shells: `help`, `completion`. */
export function addHelpCommands(program: Command): void {
  program.helpCommand(false);
  declare(
    program,
    'help',
    null,
    'explain a command or a topic',
    'Topics are the chapters of the manual and their sections, by their titles, their files or a word of one. Without a name, lists commands and ' +
      'topics.\n\nExample: workbook-mirror help history restore\n         workbook-mirror help on-disk',
  )
    .argument('[name...]', 'a command, or a topic')
    .option('--man', 'print everything as a manual page, for `man -l -`')
    .action(async (names: string[], { man }: { man?: true }) => {
      if (man) {
        await addAllPendingFlags(program);
        const { manualPage } = await import('./manual-page.ts');
        printData(escapedLines(manualPage(program, packageVersion())));
        return;
      }
      const command = findCommand(program, names);
      if (command === undefined) {
        const { showTopic } = await import('./manual.ts');
        printData(showTopic(names.join(' '), namesOf(program)));
        return;
      }
      await addPendingFlags(command);
      if (command === program) showWhole(command);
      command.outputHelp();
    });
  addCompletion(program);
}

function addCompletion(program: Command): void {
  const shells = ['bash', 'zsh', 'fish'] as const;
  declare(
    program,
    'completion',
    {
      reads: ['directory', 'serve.directory'],
      needs: [],
      onLine: ['directory', 'serve.directory'],
    },
    'print what completes this command line in a shell',
    'The script asks for `completion targets`, `completion history` and `completion keys` itself, with --config, --directory and ' +
      '--serve-directory as they stand on the line, to offer the names of targets and the ids of keys.\n\nExample: source <(workbook-mirror completion bash)',
  )
    .addArgument(
      // Commander then shows the shells alone, and takes what the scripts ask for, too.
      new Argument('<shell>', 'the shell').choices(shells).argParser((asked: string) => {
        if ([...shells, 'targets', 'history', 'keys'].includes(asked)) return asked;
        throw new InvalidArgumentError(`Allowed choices are ${shells.join(', ')}.`);
      }),
    )
    .action(async (asked: string, _options, command: Command) => {
      const { completionFor, keysFor, namesFor } = await import('./complete.ts');
      const shell = shells.find((each) => each === asked);
      if (shell !== undefined) {
        await addAllPendingFlags(program);
        printData(escapedLines(completionFor(shell, program)));
        return;
      }
      const { settingsOf } = await import('./settings-flags.ts');
      const names =
        asked === 'keys'
          ? await keysFor(settingsOf(command, []).settings)
          : await namesFor(
              asked === 'history' ? 'history' : 'targets',
              settingsOf(command, ['directory']).settings,
            );
      // A shell takes a name as it stands here, and then shows it: one that could not be shown as itself is not offered.
      const shown = names.filter((name) => printable(name) === name);
      if (shown.length > 0) printData(joinLines(shown));
    });
}

/** The command that some words lead to; the program itself without any. */
function findCommand(program: Command, names: readonly string[]): Command | undefined {
  let command: Command | undefined = program;
  for (const name of names) command = command?.commands.find((each) => each.name() === name);
  return command;
}

function namesOf(program: Command): string[] {
  return program.commands.map((command) => command.name());
}
