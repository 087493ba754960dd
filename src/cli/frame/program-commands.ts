import { Argument, type Command, InvalidArgumentError, Option } from 'commander';

import { SHELLS } from '../completion/scripts.ts';
import { ALL_FLAGS, DISK_FLAGS, INIT_FLAGS } from '../settings/flag-sets.ts';
import { declare, declareGroup } from './declare.ts';

/** Declares the command that writes the first settings: `init`. */
export function addInitCommand(program: Command): void {
  declare(program, {
    name: 'init',
    flags: INIT_FLAGS,
    summary: 'ask for the first settings, and write them',
    help:
      'Finds the API from the address in the browser, tries keys and directory, and shows the files before it writes them: settings, and ' +
      'keys that only their owner can read. As root, where the unit is installed, keys become credentials of systemd.\n\n' +
      'Example: workbook-mirror init\n' +
      '         workbook-mirror init --yes --service-base-url https://workbooks.example.com --service-api-key-file api-key',
    load: async () => (await import('../init/init.ts')).runInit,
  }).option('--yes', 'ask nothing: take the flags, and replace no file');
}

/** Declares the commands on settings: `config check`, `config show`, `config schema`. */
export function addConfigCommands(program: Command): void {
  const config = declareGroup(program, 'config', 'settings', 'settings: check, show and describe them');
  declare(config, {
    name: 'check',
    flags: ALL_FLAGS,
    summary: 'check the settings of the daemon, or of the embedded service',
    help:
      'Reports all problems at once, tries whether the commands of hooks can be run, and looks at the file system of the directory. ' +
      'Exits with 2 if there is a problem. --online also tries the service with every key, the clock, free space, the receivers of ' +
      'hooks and the state cache, sends no notification, and exits with 1 for an error.\n\n' +
      'Example: workbook-mirror config check --config config.yaml --online',
    load: async () => (await import('../settings/config.ts')).runConfigCheck,
  })
    .addOption(
      new Option('--for <command>', 'the command that is to run with them (default: run)').choices([
        'run',
        'serve',
      ]),
    )
    .addOption(new Option('--online', 'try everything that the daemon will need').conflicts('for'))
    .option('--json', 'print the findings as JSON');
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

/** Declares `hooks test`. */
export function addHooksCommands(program: Command): void {
  const hooks = declareGroup(program, 'hooks', 'commands and notifications');
  declare(hooks, {
    name: 'test',
    flags: DISK_FLAGS,
    summary: 'send a notification, or run a hook command, once as a test',
    help:
      'Sends one request to hooks.webhook or hooks.heartbeat, or runs hooks.afterPublish or hooks.beforePublish for a target that is ' +
      'mirrored, with MIRROR_TEST=1. Shows request and answer, or output. Remembers nothing. Exits with 1 where it fails.\n\n' +
      'Example: workbook-mirror hooks test webhook\n         workbook-mirror hooks test after-publish Accounting/main',
    load: async () => (await import('../settings/hooks-test.ts')).runHooksTest,
  })
    .addArgument(
      new Argument('<hook>', 'the hook').choices(['webhook', 'heartbeat', 'after-publish', 'before-publish']),
    )
    .argument('[target]', 'the target of a hook command, as below mirror/')
    .option('--json', 'print the result as JSON');
}

/** Declares the commands that explain the program, to people and to their shells: `help`, `completion`. */
export function addHelpCommands(program: Command): void {
  declare(program, {
    name: 'help',
    flags: null,
    summary: 'explain a command or a topic',
    help:
      'Topics are the chapters of the manual and their sections. Without a name, lists commands and topics.\n\n' +
      'Example: workbook-mirror help history restore\n         workbook-mirror help on-disk',
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
