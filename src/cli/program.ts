import { Command, CommanderError } from 'commander';

import { WORKBOOK_STATUS_FILTERS } from '../api/schemas.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../model/errors.ts';
import { printData, printJson, tell } from './output.ts';
import { addSettingsFlags, type FlagSet, settingsOf } from './settings-flags.ts';
import { packageVersion } from './version.ts';

/** What a command line comes to. */
export interface ProgramResult {
  readonly exitCode: ExitCode;
}

const EXIT_CODE_HELP = `
Exit codes of run and sync:
  0   every selected target is verified fresh (run: it was told to stop)
  1   some target failed, is held or quarantined; the others are done
  2   usage or settings
  3   the service is unreachable or refuses the credentials
  4   another instance holds the directory
  70  a defect of workbook-mirror`;

/**
 * Parses a command line and runs its command. What a command needs is loaded only when it runs.
 * @param argv as `process.argv` has it
 * @throws MirrorError whatever the command meets; `usage.invalid` for a bad command line
 */
export async function runProgram(argv: readonly string[]): Promise<ProgramResult> {
  let exitCode: ExitCode = EXIT_CODES.ok;
  const program = new Command('workbook-mirror')
    .description('Keeps an exact, always readable copy of a workbook version-control service on local disk.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .helpCommand('help [command]', 'explain a command')
    .addHelpText('after', EXIT_CODE_HELP)
    .exitOverride()
    .configureOutput({ outputError: () => {} });
  const setExitCode = (code: ExitCode): void => {
    exitCode = code;
  };
  addMirrorCommands(program, setExitCode);
  addReportCommands(program, setExitCode);
  addGuardCommands(program);
  addListCommands(program);
  addConfigCommands(program);
  addServiceCommands(program, setExitCode);
  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw usageError(error);
  }
  return { exitCode };
}

function usageError(error: CommanderError): MirrorError {
  if (error.code === 'commander.help')
    return new MirrorError('usage.invalid', 'A command is needed: see the list above.');
  return new MirrorError('usage.invalid', error.message.replace(/^error: /, ''), {
    hint: '`workbook-mirror help` lists the commands, `workbook-mirror help COMMAND` the flags of one.',
  });
}

/** Declares a command with its settings' flags. */
function declare(
  parent: Command,
  name: string,
  flags: FlagSet | null,
  summary: string,
  help: string,
): Command {
  const command = parent
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.\n\n${help}`);
  return flags === null ? command : addSettingsFlags(command, flags);
}

type SetExitCode = (code: ExitCode) => void;

function addMirrorCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'run',
    'mirror',
    'run the daemon',
    'Makes a pass at once, then one at every tick of `schedule`. Logs JSON lines to standard output, or readable lines on a ' +
      'terminal. SIGHUP asks for a pass now; SIGTERM and SIGINT stop it.\n\n' +
      'Example: workbook-mirror run --config /etc/workbook-mirror/config.yaml',
  ).action(async (_options, command: Command) => {
    const { settings } = settingsOf(command, ['service', 'directory']);
    const { logOf, run } = await import('./run.ts');
    setExitCode(await run(settings, logOf(settings)));
  });
  declare(
    program,
    'sync',
    'mirror',
    'make one pass, then exit',
    'Polls the service, pulls and publishes what changed, and says how it went by its exit code. Targets that failed ' +
      'before are tried at once, except in quarantine.\n\nExample: workbook-mirror sync --json',
  )
    .option('--json', 'print the outcome as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['service', 'directory']);
      const { progressOf, sync, syncData } = await import('./sync.ts');
      const { report, exitCode } = await sync(settings, progressOf(settings));
      if (options.json) printJson(syncData(report));
      setExitCode(exitCode);
    });
  declare(
    program,
    'plan',
    'mirror',
    'say what a pass would do, and why; change nothing',
    'Polls the service and compares it with what is mirrored. Sizes are those of the last pull.\n\n' +
      'Example: workbook-mirror plan --json',
  )
    .option('--json', 'print the plan as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['service', 'directory']);
      const { describePlan, plan, planData } = await import('./plan.ts');
      const actions = await plan(settings);
      if (options.json) printJson(planData(actions));
      else printData(describePlan(actions));
    });
}

function addReportCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'status',
    'mirror',
    'say how every target stands',
    'Reads the disk, also beside a running daemon. Ends with 1 when a target is not verified fresh.\n\n' +
      'Example: workbook-mirror status --directory /var/lib/workbook-mirror',
  )
    .option('--json', 'print the report as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['directory']);
      const { describeStatus, isWell, status } = await import('./status.ts');
      const report = await status(settings);
      if (options.json) printJson(report);
      else printData(describeStatus(report));
      setExitCode(report.targets.every(isWell) ? EXIT_CODES.ok : EXIT_CODES.incomplete);
    });
  declare(
    program,
    'why',
    'mirror',
    'explain a target or a file: the decisions taken about it, and what comes next',
    'Example: workbook-mirror why Accounting/main\n         workbook-mirror why "mirror/Accounting/main/Budget 2026.xlsx"',
  )
    .argument('<target-or-path>', 'a target as below mirror/, or a file in one')
    .option('--json', 'print the explanation as JSON')
    .action(async (asked: string, options: { json?: true }, command: Command) => {
      const { settings } = settingsOf(command, ['directory']);
      const { describeExplanation, why } = await import('./why.ts');
      const explanation = await why(settings, asked);
      if (options.json) printJson(explanation);
      else printData(describeExplanation(explanation));
    });
}

function addGuardCommands(program: Command): void {
  declare(
    program,
    'approve',
    'mirror',
    'let a held deletion go through, once',
    'A pass that would retire too many targets, or delete too many files of one (`guard`), holds that until it is ' +
      'approved here. The next pass carries it out. Works beside a running daemon.\n\n' +
      'Example: workbook-mirror approve Accounting/main',
  )
    .argument('[targets...]', 'targets as below mirror/')
    .option('--all', 'everything that is held')
    .option('--json', 'print what was approved as JSON')
    .action(async (targets: string[], options: { all?: true; json?: true }, command: Command) => {
      if (targets.length === 0 && options.all !== true) {
        throw new MirrorError('usage.invalid', 'approve needs a target, or --all.', {
          hint: '`workbook-mirror status` lists what is held.',
        });
      }
      const { settings } = settingsOf(command, ['directory']);
      const { approve, describeApproved } = await import('./approve.ts');
      const approved = await approve(settings, options.all === true ? null : targets);
      if (options.json) printJson(approved);
      else printData(describeApproved(approved));
    });
}

function addListCommands(program: Command): void {
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
    .option('--status <status>', `only those with this status: ${WORKBOOK_STATUS_FILTERS.join(' or ')}`)
    .option('--json', 'print the list as JSON')
    .action(async (options: { status?: string; json?: true }, command: Command) => {
      const filter = WORKBOOK_STATUS_FILTERS.find((each) => each === options.status);
      if (options.status !== undefined && filter === undefined) {
        throw new MirrorError(
          'usage.invalid',
          `--status takes ${WORKBOOK_STATUS_FILTERS.join(' or ')}, not ${JSON.stringify(options.status)}.`,
        );
      }
      const { settings } = settingsOf(command, ['service']);
      const { describeWorkbooks, listWorkbooks } = await import('./lists.ts');
      const list = await listWorkbooks(settings, filter);
      if (options.json) printJson(list.rows);
      else printData(describeWorkbooks(list));
    });
}

function addConfigCommands(program: Command): void {
  const config = program
    .command('config')
    .summary('settings')
    .description('Settings: check them, show them, describe them.');
  declare(
    config,
    'check',
    'all',
    'check the settings of the daemon',
    'Reports all problems at once. Ends with 2 when there are any.\n\nExample: workbook-mirror config check --config config.yaml',
  ).action(async (_options, command: Command) => {
    const loaded = settingsOf(command, ['service', 'directory']);
    const { describeCheck } = await import('./config.ts');
    printData(describeCheck(loaded));
  });
  declare(
    config,
    'show',
    'all',
    'show the effective settings and where each comes from',
    'Secrets are masked.\n\nExample: workbook-mirror config show --json',
  )
    .option('--json', 'print the settings as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const loaded = settingsOf(command, []);
      const { showSettings } = await import('./config.ts');
      const { yaml, data } = showSettings(loaded);
      if (options.json) printJson(data);
      else printData(yaml);
    });
  declare(
    config,
    'schema',
    null,
    'print the JSON Schema of the settings file',
    'Example: workbook-mirror config schema > config.schema.json',
  ).action(async () => {
    const { renderJsonSchema } = await import('../config/render.ts');
    printData(renderJsonSchema());
  });
}

function addServiceCommands(program: Command, setExitCode: SetExitCode): void {
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

/** Tells a person what went wrong and what to do about it. */
export function tellError(error: MirrorError): void {
  tell(`workbook-mirror: ${error.message}`);
  if (error.hint !== undefined) tell(`  ${error.hint}`);
}
