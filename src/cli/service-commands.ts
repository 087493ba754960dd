import { type Command, InvalidArgumentError, Option } from 'commander';

import { WORKBOOK_STATUS_FILTERS, type WorkbookStatusFilter } from '../lib/api/requests.ts';
import { EXIT_CODES } from '../lib/errors/errors.ts';
import { declare, type FlagSet, SERVICE_FLAGS, type SetExitCode } from './declare.ts';
import { printData, printJson } from './output.ts';
import type { CreateFlags } from './repos-create.ts';

/** Declares the commands that ask the service: `repos`, `workbooks`. */
export function addListCommands(program: Command): void {
  const repositories = program
    .command('repos')
    .summary('repositories of the service')
    .description('Repositories of the service.');
  declare(
    repositories,
    'list',
    SERVICE_FLAGS,
    'list the repositories of the service',
    'GET /repos.\n\nExample: workbook-mirror repos list --json',
  )
    .option('--json', 'print the list as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['service']);
      const { describeRepositories, listRepositories } = await import('./lists.ts');
      const list = await listRepositories(settings);
      if (options.json) printJson(list.repositories);
      else printData(describeRepositories(list));
    });
  addCreateCommand(repositories);
  const workbooks = program
    .command('workbooks')
    .summary('workbooks of the service')
    .description('Workbooks of the service (v1).');
  declare(
    workbooks,
    'list',
    SERVICE_FLAGS,
    'list the workbooks of the service',
    'GET /v1/workbooks, all pages.\n\nExample: workbook-mirror workbooks list --status failure',
  )
    .addOption(
      new Option('--status <status>', 'only those with this status').choices(WORKBOOK_STATUS_FILTERS),
    )
    .option('--json', 'print the list as JSON')
    .action(async (options: { status?: WorkbookStatusFilter; json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['service']);
      const { describeWorkbooks, listWorkbooks } = await import('./lists.ts');
      const list = await listWorkbooks(settings, options.status);
      if (options.json) printJson(list.rows);
      else printData(describeWorkbooks(list));
    });
}

function addCreateCommand(repositories: Command): void {
  declare(
    repositories,
    'create',
    SERVICE_FLAGS,
    'create a repository in the service',
    'POST /repos: a drag-and-drop repository by its name, or a repository connected to a Git repository by its address. ' +
      'It is not sent twice where it may have been created already.\n\n' +
      'Example: workbook-mirror repos create --name Accounting',
  )
    .option('--name <name>', 'name of a new drag-and-drop repository')
    .option('--url <url>', 'address of a Git repository, https://<host>/<path>.git')
    .option('--username <user>', 'user name for the Git repository')
    .option('--password-file <file>', 'file that holds the password for it; - for standard input')
    .option('--json', 'print the repository as JSON')
    .action(async (options: CreateFlags & { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['service']);
      const { describeRepositories } = await import('./lists.ts');
      const { createRepository } = await import('./repos-create.ts');
      const repository = await createRepository(settings, options);
      if (options.json) printJson(repository);
      else printData(describeRepositories({ repositories: [repository], problems: [] }));
    });
}

const DEFAULT_PROBE_REQUESTS = 150;

/** Declares the command that asks the service how it behaves: `probe`. */
export function addProbeCommand(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'probe',
    SERVICE_FLAGS,
    'ask the service what its specification leaves open',
    'Reads only: GET and HEAD, one request after the other. What it prints names no repository, workbook, person, host or key, ' +
      'so that it can be sent to others. Ends with 1 when it could not ask everything.\n\n' +
      'Example: workbook-mirror probe --config config.yaml > probe.txt',
  )
    .option('--json', 'print the report as JSON')
    .option(
      '--with-wrong-key',
      'also ask without a key and with one that is made up, once each: not where that locks people out',
    )
    .option('--max-requests <number>', `most requests in all (default: ${DEFAULT_PROBE_REQUESTS})`, readCount)
    .action(
      async (
        options: { json?: true; withWrongKey?: true; maxRequests?: number },
        command: Command,
      ): Promise<void> => {
        const { settingsOf } = await import('./settings-flags.ts');
        const { settings } = settingsOf(command, ['service']);
        const { describeProbe, probeService } = await import('./probe.ts');
        const report = await probeService(settings, {
          withWrongKey: options.withWrongKey === true,
          maxRequests: options.maxRequests ?? DEFAULT_PROBE_REQUESTS,
        });
        if (options.json) printJson(report);
        else printData(describeProbe(report));
        setExitCode(report.stopped === null ? EXIT_CODES.ok : EXIT_CODES.incomplete);
      },
    );
}

function readCount(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A whole number from 1 to 99999 is needed.');
}

/** What `serve` reads: settings of its own, and those of the mirror that it answers from with `--from-mirror`. */
const SERVE_FLAGS: FlagSet = {
  reads: ['serve', 'log', 'directory', 'state', 'schedule', 'timezone', 'maxStaleness'],
  needs: [],
  onLine: ['serve.listen', 'serve.directory', 'directory'],
};

/** Declares the commands around the embedded service: `serve`, `demo`. */
export function addServiceCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'serve',
    SERVE_FLAGS,
    'run the embedded service',
    'The same API on real Git repositories, to try things with. Prints its base address on standard output, and its log, as ' +
      '`log.level` and `log.format` want it, on standard error. Where there is no key, of `keys create` or in `serve.apiKey`, ' +
      'it makes some that hold until it stops, and prints them.\n\n' +
      'With --from-mirror it answers from the published mirror of the setting `directory` instead, beside the daemon or without ' +
      'it; then everything can be read and nothing changed.\n\n' +
      'Example: workbook-mirror serve --serve-directory ./service --samples\n' +
      'Example: workbook-mirror serve --from-mirror --directory /var/lib/workbook-mirror\n\n' +
      'See also: `help the-embedded-service`, `help kinds-of-keys`, `help a-replica`.',
  )
    .option('--samples', 'put sample repositories where there are no repositories yet')
    .addOption(
      new Option('--from-mirror', 'answer from the published mirror, read-only').conflicts('samples'),
    )
    .action(async (options: { samples?: true; fromMirror?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      if (options.fromMirror === true) {
        const { settings } = settingsOf(command, ['directory']);
        const { serveReplica } = await import('./serve-replica.ts');
        await serveReplica(settings);
        return;
      }
      const { settings } = settingsOf(command, []);
      const { serve } = await import('./serve.ts');
      await serve(settings, { samples: options.samples === true });
    });
  declare(
    program,
    'demo',
    null,
    'show everything at work, in a temporary folder',
    'The embedded service, a writer that edits, and the daemon. Works in a temporary folder, which it removes. Ctrl-C stops everything.\n\nExample: workbook-mirror demo --once',
  )
    .option('--once', 'do everything once, check the mirror against Git byte for byte, and exit')
    .action(async (options: { once?: true }) => {
      const { demo } = await import('./demo.ts');
      setExitCode(await demo({ once: options.once === true }));
    });
}
