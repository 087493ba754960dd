import type { Command } from 'commander';

import { MirrorError } from '../lib/errors/errors.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { say } from '../lib/text/terminal-text.ts';
import { declare } from './declare.ts';
import { printData, printJson, tell } from './output.ts';

/** Takes the exit code of a command that may be that of any program. */
type SetAnyExitCode = (code: number) => void;

/** Declares the commands that have publishing wait: `lease acquire`, `lease release`, `lease list`. */
export function addLeaseCommands(program: Command, setExitCode: SetAnyExitCode): void {
  const lease = program
    .command('lease')
    .summary('have publishing wait, while a backup runs')
    .description(
      'Have publishing wait, so that a backup, or whoever else reads for long, sees one state of the whole mirror.',
    );
  addAcquire(lease, setExitCode);
  declare(
    lease,
    'release',
    'disk',
    'end a lease before its time',
    'Example: workbook-mirror lease release 0b9f4c9e-8a7d-4e0e-9d0c-1f2a3b4c5d6e',
  )
    .argument('[id]', 'as `lease acquire` printed it, or as in `lease list`')
    .option('--all', 'end all of them')
    .option('--json', 'print the leases that were ended as JSON')
    .action(async (id: string | undefined, options: { all?: true; json?: true }, command: Command) => {
      if ((id === undefined) !== (options.all === true)) {
        throw new MirrorError('usage.invalid', 'lease release needs an id, or --all.', {
          hint: `\`${ownCommand('lease list')}\` shows the leases.`,
        });
      }
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { release } = await import('./lease.ts');
      const released = await release(settings, id ?? null);
      if (options.json) printJson(released);
      else
        printData(
          released.length === 0
            ? say`No lease is in force.`
            : say`Released ${released.map((each) => each.id).join(', ')}.`,
        );
    });
  declare(
    lease,
    'list',
    'disk',
    'show the leases that publishing waits for',
    'Example: workbook-mirror lease list --json',
  )
    .option('--json', 'print the leases as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { describeLeases, leaseProblems, listLeases } = await import('./lease.ts');
      const files = await listLeases(settings);
      if (options.json) printJson(files.inForce);
      else printData(describeLeases(files.inForce, Date.now()));
      for (const problem of leaseProblems(files)) tell(say`! ${problem}`);
    });
}

function addAcquire(lease: Command, setExitCode: SetAnyExitCode): void {
  declare(
    lease,
    'acquire',
    'disk',
    'take a lease: nothing is published while it lasts',
    'With a command, runs it under the lease, releases that when the command ends, and ends with its exit code; with 1 ' +
      'if the lease ended before the command, as that may have read two states. Without one, prints the id of the lease. When it ' +
      'starts the command, or prints the id, no publish is going on.\n\n' +
      'Example: workbook-mirror lease acquire --for 2h -- restic backup --exclude-caches --ignore-ctime /var/lib/workbook-mirror',
  )
    .argument('[command...]', 'what to run, after --')
    .requiredOption('--for <duration>', 'when it ends by itself at the latest; at most 24h')
    .option('--holder <name>', 'who takes it, for people')
    .option('--json', 'without a command: print the lease as JSON')
    .action(
      async (asked: string[], flags: { for: string; holder?: string; json?: true }, command: Command) => {
        const { settingsOf } = await import('./settings-flags.ts');
        const { settings } = settingsOf(command, ['directory']);
        if (asked.length > 0) {
          if (flags.json) throw new MirrorError('usage.invalid', '--json is for a lease without a command.');
          const { runUnderLease } = await import('./lease-holder.ts');
          setExitCode(await runUnderLease(settings, flags, asked));
          return;
        }
        const { acquire } = await import('./lease.ts');
        const { abortOnSignal } = await import('../lib/process/signals.ts');
        const { signal, stopListening } = abortOnSignal();
        try {
          const taken = await acquire(settings, flags, [], signal);
          if (flags.json) printJson(taken);
          else printData(say`${taken.id}`);
        } catch (error) {
          if (!signal.aborted) throw error;
          throw new MirrorError('pass.abandoned', 'Interrupted before the lease was taken: there is none.', {
            cause: error,
          });
        } finally {
          stopListening();
        }
      },
    );
}
