import { Argument, type Command, InvalidArgumentError, Option } from 'commander';

import { SHELLS } from '../completion/scripts.ts';
import { declare } from './declare.ts';
import { ALL_FLAGS } from '../settings/flag-sets.ts';

/** Declares the commands on settings: `config check`, `config show`, `config schema`. */
export function addConfigCommands(program: Command): void {
  const config = program
    .command('config')
    .summary('settings')
    .description('Settings: check them, show them, describe them.');
  declare(config, {
    name: 'check',
    flags: ALL_FLAGS,
    summary: 'check the settings of the daemon, or of the embedded service',
    help:
      'Reports all problems of the settings at once; then tries whether the commands of hooks can be run, as `run` does. With ' +
      '`--for serve` it checks them for `serve`, which needs no service and no mirror. Ends with 2 when there are any problems.\n\n' +
      'Example: workbook-mirror config check --config config.yaml',
    load: async () => (await import('../settings/config.ts')).runConfigCheck,
  }).addOption(
    new Option('--for <command>', 'the command that is to run with them (default: run)').choices([
      'run',
      'serve',
    ]),
  );
  declare(config, {
    name: 'show',
    flags: ALL_FLAGS,
    summary: 'show the effective settings and where each comes from',
    help: 'Secrets are masked.\n\nExample: workbook-mirror config show --json',
    load: async () => (await import('../settings/config.ts')).runConfigShow,
  }).option('--json', 'print the settings as JSON');
  declare(config, {
    name: 'schema',
    flags: null,
    summary: 'print the JSON Schema of the settings file',
    help: 'Example: workbook-mirror config schema > config.schema.json',
    load: async () => (await import('../settings/config.ts')).runConfigSchema,
  });
}

/** Declares the commands that explain the program, to people and to their shells: `help`, `completion`. */
export function addHelpCommands(program: Command): void {
  program.helpCommand(false);
  declare(program, {
    name: 'help',
    flags: null,
    summary: 'explain a command or a topic',
    help:
      'Topics are the chapters of the manual and their sections, by their titles, their files or a word of one. Without a name, lists commands and ' +
      'topics.\n\nExample: workbook-mirror help history restore\n         workbook-mirror help on-disk',
    load: async () => (await import('../help/help.ts')).runHelp,
  })
    .argument('[name...]', 'a command, or a topic')
    .option('--man', 'print everything as a manual page, for `man -l -`');
  declare(program, {
    name: 'completion',
    flags: null,
    summary: 'print a completion script for a shell',
    help: 'Example: source <(workbook-mirror completion bash)',
    load: async () => (await import('../completion/complete.ts')).runCompletion,
  }).addArgument(
    // Help shows the shells alone; their scripts ask `completion words`.
    new Argument('<shell>', 'the shell').choices(SHELLS).argParser((asked: string) => {
      if ([...SHELLS, 'words'].includes(asked)) return asked;
      throw new InvalidArgumentError(`Allowed choices are ${SHELLS.join(', ')}.`);
    }),
  );
}
