import { type Command, InvalidArgumentError, Option } from 'commander';

import { KEY_KINDS, WORKBOOK_STATUS_FILTERS } from '../../lib/api/requests.ts';
import { declare, report } from './declare.ts';
import { type FlagSet, LOOK_FLAGS } from '../settings/flag-sets.ts';

/** The settings of a command that asks the service, or the daemon of the directory. */
const LIST_FLAGS: FlagSet = { ...LOOK_FLAGS, reads: ['service', 'directory'], needs: [] };

/** The most requests of `probe`, unless a flag says otherwise. */
const PROBE_REQUESTS = 150;

/** Declares the commands that ask the service: `repos`, `workbooks`, `probe`. */
export function addListCommands(program: Command): void {
  const repos = program.command('repos').summary('repositories of the service');
  report(repos, 'list', LIST_FLAGS, async () => (await import('../service/repos.ts')).runReposList)
    .summary('list the repositories of the service')
    .description('GET /repos.\n\nExample: workbook-mirror repos list --json');
  report(repos, 'create', LIST_FLAGS, async () => (await import('../service/repos.ts')).runReposCreate)
    .summary('create a repository in the service')
    .description(
      'POST /repos: a drag-and-drop repository by its name, or a repository connected to a Git repository by its address. ' +
        'If the answer is lost, the request is not repeated.\n\n' +
        'Example: workbook-mirror repos create --name Accounting',
    )
    .addOption(
      new Option('--name <name>', 'name of a new drag-and-drop repository').conflicts([
        'url',
        'username',
        'passwordFile',
      ]),
    )
    .option('--url <url>', 'address of a Git repository, https://<host>/<path>.git')
    .option('--username <user>', 'user name for the Git repository')
    .option('--password-file <file>', 'file that holds the password for it; - for standard input');
  const workbooks = program.command('workbooks').summary('workbooks of the service');
  report(
    workbooks,
    'list',
    LIST_FLAGS,
    async () => (await import('../service/workbooks.ts')).runWorkbooksList,
  )
    .summary('list the workbooks of the service')
    .description('GET /v1/workbooks, all pages.\n\nExample: workbook-mirror workbooks list --json')
    .addOption(
      new Option('--status <status>', 'only those with this status').choices(WORKBOOK_STATUS_FILTERS),
    );
  report(program, 'probe', LIST_FLAGS, async () => (await import('../service/probe.ts')).runProbe)
    .summary('ask the service what its API leaves open')
    .description(
      'Reads only: GET and HEAD, one request after the other. The report names no repository, workbook, person, host or key, ' +
        'so that it can be sent to others. Exits with 1 if it ended early.\n\n' +
        'Example: workbook-mirror probe --config config.yaml > probe.txt',
    )
    .option(
      '--with-wrong-key',
      'also send one request without a key and one with a false key; not if that locks accounts',
    )
    .option('--max-requests <number>', 'most requests in all', readCount, PROBE_REQUESTS);
}

function readCount(text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A whole number from 1 to 99999 is needed.');
}

/** The settings that `serve` reads: its own and, with `--from-mirror`, the mirror's. */
const SERVE_FLAGS: FlagSet = {
  reads: ['serve', 'log', 'directory', 'state', 'schedule', 'timezone', 'maxStaleness'],
  needs: [],
  onLine: ['serve.listen', 'serve.directory', 'directory'],
};

const KEY_FLAGS: FlagSet = { reads: ['serve.directory'], needs: [], onLine: ['serve.directory'] };

/** The list also says which settings hold a key. */
const KEY_SETTINGS = ['serve.directory', 'serve.apiKeyFile', 'serve.apiTokenFile'];
const KEY_LIST_FLAGS: FlagSet = { reads: KEY_SETTINGS, needs: [], onLine: KEY_SETTINGS };

/** Declares the commands around the embedded service: `serve`, `demo`, `keys`. */
export function addServiceCommands(program: Command): void {
  declare(program, 'demo', null, async () => (await import('../service/demo.ts')).runDemo)
    .summary('show everything at work, in a temporary folder')
    .description(
      'The embedded service, a writer that edits, and the daemon.\n\nExample: workbook-mirror demo --once',
    )
    .option('--once', 'do everything once, check the mirror against Git byte for byte, and exit');
  declare(program, 'serve', SERVE_FLAGS, async () => (await import('../service/serve.ts')).runServe)
    .summary('run the embedded service')
    .description(
      'The same API on real Git repositories, to try things with. Prints its base address on standard output, and its log on standard ' +
        'error. If no key is set, it prints temporary ones. With --from-mirror it answers, read-only, from ' +
        'the published mirror in `directory` instead.\n\n' +
        'Example: workbook-mirror serve --serve-directory ./service --samples\n' +
        '         workbook-mirror serve --from-mirror \\\n           --directory /var/lib/workbook-mirror',
    )
    .option('--samples', 'put sample repositories where there are no repositories yet')
    .addOption(
      new Option('--from-mirror', 'answer from the published mirror, read-only').conflicts('samples'),
    );
  const keys = program.command('keys').summary('keys of the embedded service');
  report(keys, 'create', KEY_FLAGS, async () => (await import('../service/keys.ts')).runKeysCreate)
    .summary('make a key, and print it once')
    .description(
      'Standard output gets the key and nothing else. See `help kinds-of-keys`.\n\n' +
        'Example: (umask 077; workbook-mirror keys create --kind personal --name Anna \\\n           --serve-directory ./service > anna.key)',
    )
    .addOption(new Option('--kind <kind>', 'what it is for').choices(KEY_KINDS).makeOptionMandatory())
    .requiredOption('--name <name>', 'owner of the key, and author of its uploads');
  report(keys, 'list', KEY_LIST_FLAGS, async () => (await import('../service/keys.ts')).runKeysList)
    .summary('show the keys')
    .description('Example: workbook-mirror keys list --serve-directory ./service');
  declare(keys, 'revoke', KEY_FLAGS, async () => (await import('../service/keys.ts')).runKeysRevoke)
    .summary('end a key')
    .description(
      'The service refuses the key from now on.\n\n' +
        'Example: workbook-mirror keys revoke 0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e \\\n           --serve-directory ./service',
    )
    .argument('<id>', 'as in `keys list`');
}
