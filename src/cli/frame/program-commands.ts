import { Argument, type Command, InvalidArgumentError } from 'commander';

import { SHELLS } from '../completion/scripts.ts';
import { ALL_FLAGS, DISK_FLAGS, INIT_FLAGS } from '../settings/flag-sets.ts';
import { declare, report } from './declare.ts';

/** Declares the command that writes the first settings: `init`. */
export function addInitCommand(program: Command): void {
  declare(program, 'init', INIT_FLAGS, async () => (await import('../init/init.ts')).runInit)
    .summary('ask for the first settings, and write them')
    .description(
      'Finds the API from the address in the browser, tries keys and directory, and shows the files before it writes them: settings, and ' +
        'keys that only their owner can read. As root, where the unit is installed, keys become credentials of systemd.\n\n' +
        'Example: workbook-mirror init\n' +
        '         workbook-mirror init --yes --service-api-key-file api-key \\\n           --service-base-url https://workbooks.example.com',
    )
    .option('--yes', 'ask nothing: take the flags, and replace no file');
}

/** Declares the commands on settings: `config check`, `config show`, `config schema`, `hooks test`. */
export function addConfigCommands(program: Command): void {
  const config = program
    .command('config')
    .summary('settings')
    .description('Settings: check, show and describe them.');
  report(config, 'check', ALL_FLAGS, async () => (await import('../settings/config.ts')).runConfigCheck)
    .summary('check the settings of the daemon')
    .description(
      'Reports all problems at once, tries whether the commands of hooks can be run, and looks at the file system of the directory. ' +
        'Exits with 2 if there is a problem. --online also tries the service with every key, the clock, free space, the receivers of ' +
        'hooks and the state cache, sends no notification, and exits with 1 for an error.\n\n' +
        'Example: workbook-mirror config check --config config.yaml --online',
    )
    .option('--online', 'try everything that the daemon will need');
  report(config, 'show', ALL_FLAGS, async () => (await import('../settings/config.ts')).runConfigShow)
    .summary('show the effective settings and where each comes from')
    .description('Secrets are masked.\n\nExample: workbook-mirror config show --json');
  declare(config, 'schema', null, async () => (await import('../settings/config.ts')).runConfigSchema)
    .summary('print the JSON Schema of the settings file')
    .description('Example: workbook-mirror config schema > config.schema.json');
  const hooks = program.command('hooks').summary('commands and notifications');
  report(hooks, 'test', DISK_FLAGS, async () => (await import('../settings/hooks-test.ts')).runHooksTest)
    .summary('send a notification, or run a hook command, once as a test')
    .description(
      'Sends one request to hooks.webhook or hooks.heartbeat, or runs hooks.afterPublish or hooks.beforePublish for a target that is ' +
        'mirrored, with MIRROR_TEST=1. Shows request and answer, or output. Records nothing. Exits with 1 if it fails.\n\n' +
        'Example: workbook-mirror hooks test webhook\n         workbook-mirror hooks test after-publish Accounting/main',
    )
    .addArgument(
      new Argument('<hook>', 'the hook').choices(['webhook', 'heartbeat', 'after-publish', 'before-publish']),
    )
    .argument('[target]', 'the target of a hook command, as below mirror/');
}

/** Declares the commands that explain the program, to people and to their shells: `help`, `completion`. */
export function addHelpCommands(program: Command): void {
  declare(program, 'help', null, async () => (await import('../help/help.ts')).runHelp)
    .summary('explain a command or a topic')
    .description(
      'Topics are the chapters of the manual and their sections. Without a name, lists commands and topics.\n\n' +
        'Example: workbook-mirror help history restore\n         workbook-mirror help on-disk',
    )
    .argument('[name...]', 'a command, or a topic')
    .option('--man', 'print everything as a manual page, for `man -l -`');
  declare(program, 'completion', null, async () => (await import('../completion/complete.ts')).runCompletion)
    .summary('print a completion script for a shell')
    .description('Example: source <(workbook-mirror completion bash)')
    .addArgument(
      // Help shows the shells alone; their scripts ask `completion words`.
      new Argument('<shell>', 'the shell').choices(SHELLS).argParser((asked: string) => {
        if ([...SHELLS, 'words'].includes(asked)) return asked;
        throw new InvalidArgumentError(`Allowed choices are ${SHELLS.join(', ')}.`);
      }),
    );
}
