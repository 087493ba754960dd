import { type Command, Option } from 'commander';

import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../api/schemas.ts';
import { declare, type SetExitCode } from './declare.ts';
import { printData, printJson } from './output.ts';
import { settingsOf } from './settings-flags.ts';

/** Declares the commands that ask the service: `repos`, `workbooks`. */
export function addListCommands(program: Command): void {
  const repositories = program
    .command('repos')
    .summary('repositories of the service')
    .description('Repositories of the service.');
  declare(
    repositories,
    'list',
    'mirror',
    'list the repositories of the service',
    'GET /repos.\n\nExample: workbook-mirror repos list --json',
  )
    .option('--json', 'print the list as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['service']);
      const { describeRepositories, listRepositories } = await import('./lists.ts');
      const list = await listRepositories(settings);
      if (options.json) printJson(list.repositories);
      else printData(describeRepositories(list));
    });
  const workbooks = program
    .command('workbooks')
    .summary('workbooks of the service')
    .description('Workbooks of the service (v1).');
  declare(
    workbooks,
    'list',
    'mirror',
    'list the workbooks of the service',
    'GET /v1/workbooks, all pages.\n\nExample: workbook-mirror workbooks list --status failure',
  )
    .addOption(
      new Option('--status <status>', 'only those with this status').choices(WORKBOOK_STATUS_FILTERS),
    )
    .option('--json', 'print the list as JSON')
    .action(async (options: { status?: WorkbookStatusFilter; json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['service']);
      const { describeWorkbooks, listWorkbooks } = await import('./lists.ts');
      const list = await listWorkbooks(settings, options.status);
      if (options.json) printJson(list.rows);
      else printData(describeWorkbooks(list));
    });
}

/** Declares the commands around the embedded service: `serve`, `demo`. */
export function addServiceCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'serve',
    'serve',
    'run the embedded service',
    'The same API on real Git repositories, to try things with. Prints its base address on standard output. Without ' +
      '`serve.apiKey` it makes credentials that hold until it stops, and prints them.\n\n' +
      'Example: workbook-mirror serve --serve-directory ./service --samples',
  )
    .option('--samples', 'put sample repositories into an empty directory')
    .action(async (options: { samples?: true }, command: Command) => {
      const { settings } = settingsOf(command, []);
      const { serve } = await import('./serve.ts');
      await serve(settings, { samples: options.samples === true });
    });
  declare(
    program,
    'demo',
    null,
    'show everything at work: the embedded service, a writer that edits, and the daemon',
    'Works in a temporary folder, which it removes. Ctrl-C stops everything.\n\nExample: workbook-mirror demo --once',
  )
    .option('--once', 'do everything once, check the mirror against Git byte for byte, and exit')
    .action(async (options: { once?: true }) => {
      const { demo } = await import('./demo.ts');
      setExitCode(await demo({ once: options.once === true }));
    });
}
