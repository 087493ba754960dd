import { type Command, InvalidArgumentError, Option } from 'commander';

import { DISK_FLAGS, LOOK_FLAGS, PASS_FLAGS, RUN_FLAGS } from '../settings/flag-sets.ts';
import { declare, report } from './declare.ts';
import type { Outcome } from './output.ts';

/** The flag for a first mirror beside other data. */
const ADOPT = ['--adopt', 'begin in a folder that is not empty'] as const;

const TARGETS = ['[targets...]', 'as below mirror/, or "Sales/*"'] as const;

/** As TARGETS; all if none is named. */
const TARGETS_OR_ALL = [TARGETS[0], `${TARGETS[1]}; default: all`] as const;

/** Declares the commands that make or plan a pass: `run`, `sync`, `poll`, `plan`. */
export function addPassCommands(program: Command): void {
  declare(program, 'run', RUN_FLAGS, () => Promise.resolve(runDaemon))
    .summary('run the daemon')
    .description(
      'Makes a pass immediately, then on `schedule`. Logs to standard output. SIGHUP rereads the settings and asks for a pass; SIGTERM and ' +
        'SIGINT stop it.\n\n' +
        'Example: workbook-mirror run --config /etc/workbook-mirror/config.yaml',
    )
    .option(...ADOPT);
  report(program, 'sync', PASS_FLAGS, async () => (await import('../change/passes.ts')).runSync)
    .summary('make one pass, then exit')
    .description(
      'Polls the service, and pulls and publishes changes. Targets that failed before are tried, too. A running daemon makes the pass.\n\n' +
        'Example: workbook-mirror sync --json',
    )
    // The command refuses them, and names the one that takes them.
    .allowExcessArguments()
    .option('--allow-failed', 'exit with 0 if targets failed or are held')
    .option(...ADOPT);
  report(program, 'poll', PASS_FLAGS, async () => (await import('../change/passes.ts')).runPoll)
    .summary('ask for a pass now')
    .description(
      'Asks the daemons of the directory for a pass, or makes it if none runs. The pass also tries targets that wait and repairs drifted ' +
        'trees: all, or those that are named.\n\nExample: workbook-mirror poll --wait',
    )
    .argument(...TARGETS)
    .option('--wait', 'wait for the pass, and end with its exit code');
  report(program, 'plan', PASS_FLAGS, async () => (await import('../read/plan.ts')).runPlan)
    .summary('show what a pass would do, and why')
    .description(
      'Polls the service and compares it with what is mirrored. Sizes are those of the last pull.\n\n' +
        'Example: workbook-mirror plan --json',
    )
    .argument(...TARGETS_OR_ALL);
}

async function runDaemon(command: Command): Promise<Outcome> {
  const { adopt }: { adopt?: true } = command.opts();
  const { settingsOf } = await import('../settings/settings-flags.ts');
  const { run } = await import('../../daemon/run.ts');
  return { exitCode: await run(() => settingsOf(command, ['service', 'directory']), adopt) };
}

/** Declares the commands that report: `status`, `why`, `log`, `diff`, `verify`. */
export function addReportCommands(program: Command): void {
  report(program, 'status', DISK_FLAGS, async () => (await import('../read/status.ts')).runStatus)
    .summary('show the state of every target')
    .description(
      'Reads the disk, also while a daemon runs. Exits with 1 if a target is not verified fresh. If there are more than 20 ' +
        'targets and none is named, it lists only those with problems.\n\n' +
        'Example: workbook-mirror status "Accounting/*"',
    )
    .argument(...TARGETS_OR_ALL)
    .option('--all', 'list every target, and all shards if several instances mirror one service');
  report(program, 'why', DISK_FLAGS, async () => (await import('../read/why.ts')).runWhy)
    .summary('explain the state of a target or file')
    .description(
      'Shows the last decisions about it and their reasons. For the name of a file it shows where that file is, for a retired target ' +
        'when it left.\n\n' +
        'Example: workbook-mirror why Accounting/main\n         workbook-mirror why "mirror/Accounting/main/Budget 2026.xlsx"',
    )
    .argument('<target-or-path>', 'a target as below mirror/, a file in one, or the name of a file');
  report(program, 'log', DISK_FLAGS, async () => (await import('../read/log.ts')).runLog)
    .summary('list what changed when, and by whom')
    .description(
      'Lists changed files, with the time from which they were readable here, and what was retired, restored, held or approved, as ' +
        'far back as the history goes.\n\nExample: workbook-mirror log "Accounting/*" --since 1d --author anna',
    )
    .argument(...TARGETS_OR_ALL)
    .option('--since <time>', 'a time, or an age such as 7d')
    .option('--author <text>', 'a part of the author of the version')
    .option('--file <path>', 'changes of this file, named by its path or the end of it');
  report(program, 'diff', LOOK_FLAGS, async () => (await import('../read/diff.ts')).runDiff)
    .summary('list the files that differ between two states')
    .description(
      'Compares the published tree with the state before it, or with what the service has now. Exits with 0 if no file differs, 1 if ' +
        'one does, 2 if that is unknown, 3 if the service is unreachable.\n\n' +
        'Example: workbook-mirror diff Accounting/main --upstream',
    )
    .argument('<target>', 'a target as below mirror/')
    .option('--at <time>', 'compare with the state of this time, or of an age such as 7d')
    .addOption(new Option('--upstream', 'compare with what the service has now').conflicts('at'));
  report(program, 'verify', DISK_FLAGS, async () => (await import('../read/verify.ts')).runVerify)
    .summary('compare every byte with its manifest')
    .description(
      'Compares names, sizes, modes, times and SHA-256 of every published file, also while a daemon runs and in a restored backup. ' +
        'Exits with 1 if anything differs, a target is lost, or nothing is mirrored there. --repair restores files from the history or ' +
        'the service.\n\n' +
        'Example: workbook-mirror verify --directory /var/lib/workbook-mirror',
    )
    .argument(...TARGETS_OR_ALL)
    .option('--repair', 'repair differences')
    .option('--expect <number>', 'number of targets that must be there', readNumber);
}

function readNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A whole number is needed.');
}

/** Declares the commands that decide about targets: `approve`, `retry`, `forget`. */
export function addDecisionCommands(program: Command): void {
  report(program, 'approve', DISK_FLAGS, async () => (await import('../change/approve.ts')).runApprove)
    .summary('allow a held deletion, once')
    .description(
      'A pass holds a deletion that is too large (`guard`). Lists what would go, and asks; without a terminal it needs --yes. The next ' +
        'pass carries it out, and the history keeps what goes.\n\n' +
        'Example: workbook-mirror approve Accounting/main',
    )
    .argument(...TARGETS)
    .option('--all', 'everything that is held')
    .option('--yes', 'do not ask');
  report(program, 'retry', PASS_FLAGS, async () => (await import('../change/passes.ts')).runRetry)
    .summary('retry failed targets now')
    .description(
      'Makes a pass that tries these targets although they wait, as `poll` does.' +
        '\n\nExample: workbook-mirror retry Accounting/main',
    )
    .argument(...TARGETS)
    .option('--all', 'everything that waits');
  report(program, 'forget', DISK_FLAGS, async () => (await import('../change/forget.ts')).runForget)
    .summary('remove targets that are no longer mirrored')
    .description(
      'For targets that the settings no longer select, that the service no longer has, or that are lost. Their trees move to the history. ' +
        'Lists what would go, and asks; without a terminal it needs --yes.\n\n' +
        'Example: workbook-mirror forget Accounting/main',
    )
    .argument('<targets...>', TARGETS[1])
    .option('--yes', 'do not ask');
}

/** Declares the commands on the history: `history list`, `history prune`, `history restore`. */
export function addHistoryCommands(program: Command): void {
  const history = program.command('history').summary('what left the mirror and is still kept');
  report(history, 'list', DISK_FLAGS, async () => (await import('../history/history.ts')).runHistoryList)
    .summary('list what the history keeps')
    .description('Example: workbook-mirror history list Accounting/main')
    .argument('[target]', 'a target as below mirror/');
  report(history, 'prune', DISK_FLAGS, async () => (await import('../history/history.ts')).runHistoryPrune)
    .summary('delete old states from the history')
    .description(
      'Lists what would go, and asks; without a terminal it needs --yes. A state stays for as long as an older one needs its files. ' +
        '`history.replaced` and `history.retired` prune after every pass.\n\n' +
        'Example: workbook-mirror history prune Accounting/main --older-than 7d',
    )
    .argument('[target]', 'a target as below mirror/; all if none is named')
    .requiredOption(
      '--older-than <age>',
      'only states that left the mirror longer ago, such as 7d, or before a time',
    )
    .option('--yes', 'do not ask');
  report(
    history,
    'restore',
    DISK_FLAGS,
    async () => (await import('../history/restore.ts')).runHistoryRestore,
  )
    .summary('restore a tree, or files of it')
    .description(
      'Restores a tree into the mirror, if no daemon runs there and the target is not mirrored. With --to, copies the tree, or the named ' +
        'files and folders, into another folder at any time. Without --to, writes one named file to standard output.\n\n' +
        'Example: workbook-mirror history restore Accounting/main \\\n           --at 2026-11-21T10:00:00Z --to /tmp/accounting\n' +
        '         workbook-mirror history restore Accounting/main Budget.xlsx > old.xlsx',
    )
    .argument('<target>', 'a target as below mirror/')
    .argument('[paths...]', 'files of it, or folders; everything if none is named')
    .option('--at <time>', 'the state of the mirror at this time; default: the latest in the history')
    .option('--to <folder>', 'a new or empty folder');
}

/** Declares the commands on leases: `lease acquire`, `lease release`, `lease list`. */
export function addLeaseCommands(program: Command): void {
  const lease = program.command('lease').summary('pause publishing while a backup runs');
  declare(lease, 'acquire', DISK_FLAGS, async () => (await import('../change/lease.ts')).runLeaseAcquire)
    .summary('take a lease: publishing pauses while it lasts')
    .description(
      'With a command, runs it under the lease and exits with its exit code; with 1 if the lease ended before the command. Without a ' +
        'command, prints the id of the lease. No publish is running when the command starts or the id is printed.\n\n' +
        'Example: workbook-mirror lease acquire --for 2h -- restic backup \\\n           --exclude-caches --ignore-ctime /var/lib/workbook-mirror',
    )
    .argument('[command...]', 'what to run, after --')
    .requiredOption('--for <duration>', 'maximum duration; at most 24h')
    .option('--holder <name>', 'name of the holder, for people')
    .option('--json', 'without a command: print the lease as JSON');
  report(lease, 'release', DISK_FLAGS, async () => (await import('../change/lease.ts')).runLeaseRelease)
    .summary('end a lease before its time')
    .description('Example: workbook-mirror lease release 0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e')
    .argument('[id]', 'as `lease acquire` printed it, or as in `lease list`')
    .option('--all', 'end all of them');
  report(lease, 'list', DISK_FLAGS, async () => (await import('../change/lease.ts')).runLeaseList)
    .summary('show the leases that publishing waits for')
    .description('Example: workbook-mirror lease list --json');
}
