import type { Command } from 'commander';

import { EXIT_CODES, MirrorError } from '../lib/errors/errors.ts';
import { Gauge } from '../lib/time/gauge.ts';
import { counted } from '../lib/text/humanize.ts';
import { ownCommand } from '../lib/text/own-command.ts';
import { describeAmount } from '../lib/text/amount.ts';
import { say } from '../lib/text/terminal-text.ts';
import { createLiveLine } from './live-line.ts';
import { declare, type SetExitCode } from './declare.ts';
import { liveLineOptions, printData, printJson, tell } from './output.ts';

interface ApproveFlags {
  readonly all?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** Declares the command that lets held deletions through: `approve`. */
export function addGuardCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'approve',
    'disk',
    'let a held deletion go through, once',
    'A pass that would retire too many targets, or delete too many files of one (`guard`), holds that until it is ' +
      'approved here, and so is a change of settings that deselects too many targets. Lists what would go, and asks; without a ' +
      'terminal it takes --yes. The next pass carries it out, and the history keeps what goes. Works beside a running daemon.\n\n' +
      'Example: workbook-mirror approve Accounting/main',
  )
    .argument('[targets...]', 'targets as below mirror/')
    .option('--all', 'everything that is held')
    .option('--yes', 'do not ask')
    .option('--json', 'print what was approved as JSON')
    .action(async (targets: string[], options: ApproveFlags, command: Command) => {
      if (targets.length === 0 && options.all !== true) {
        throw new MirrorError('usage.invalid', 'approve needs a target, or --all.', {
          hint: `\`${ownCommand('status')}\` lists what is held.`,
        });
      }
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { approve, describeApproved, describeHeld } = await import('./approve.ts');
      const { confirmed } = await import('./confirm.ts');
      const approved = await approve(settings, options.all === true ? null : targets, (held) =>
        options.yes === true
          ? Promise.resolve(true)
          : confirmed(describeHeld(held), say`Let ${counted(held.length, 'target')} go?`),
      );
      if (approved === null) setExitCode(EXIT_CODES.incomplete);
      if (options.json) printJson(approved ?? []);
      else printData(approved === null ? say`Nothing was approved.` : describeApproved(approved));
    });
}

/** Declares the command that tries at once what waits: `retry`. */
export function addRetryCommand(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'retry',
    'pass',
    'try at once what waits',
    'Targets that failed wait: for their back-off, in quarantine, or stalled. A running daemon tries those that are named at ' +
      'once; where none runs, this makes a pass.\n\nExample: workbook-mirror retry Accounting/main',
  )
    .argument('[targets...]', 'targets as below mirror/')
    .option('--all', 'everything that waits')
    .option('--json', 'print what is tried as JSON')
    .action(async (targets: string[], options: { all?: true; json?: true }, command: Command) => {
      if (targets.length === 0 && options.all !== true) {
        throw new MirrorError('usage.invalid', 'retry needs a target, or --all.', {
          hint: `\`${ownCommand('status')}\` lists what waits.`,
        });
      }
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { retry } = await import('./retry.ts');
      const request = await retry(settings, options.all === true ? null : targets);
      if (options.json) printJson(request);
      else if (request.targets.length === 0) printData(say`Nothing waits to be tried again.`);
      if (request.targets.length === 0) return;
      if (request.isAttended) {
        const count = counted(request.targets.length, 'target');
        tell(say`The process that works there tries ${count} within seconds: \`status\` says how it went.`);
        return;
      }
      const { progressOf, sync } = await import('./sync.ts');
      const all = settingsOf(command, ['service', 'directory']).settings;
      setExitCode((await sync(all, progressOf(all), { trigger: 'retry' })).exitCode);
    });
}

/** Shows how far some work is, by the bytes that it tells of. */
async function showingBytes<T>(
  work: (onBytes: (doing: string, bytes: number, totalBytes: number) => void) => Promise<T>,
): Promise<T> {
  const line = createLiveLine(liveLineOptions());
  const gauges = new Map<string, Gauge>();
  try {
    return await work((doing, bytes, totalBytes) => {
      const gauge = gauges.get(doing) ?? new Gauge(totalBytes);
      gauges.set(doing, gauge);
      gauge.add(bytes);
      line.show(() => `${doing} ${describeAmount(gauge.amount())}`);
    });
  } finally {
    line.clear();
  }
}

/** Declares the commands on what left the mirror: `history list`, `history restore`. */
export function addHistoryCommands(program: Command): void {
  const history = program
    .command('history')
    .summary('what left the mirror and is still kept')
    .description('What left the mirror and is still kept (`history.retired`, `history.replaced`).');
  declare(
    history,
    'list',
    'disk',
    'list what the history keeps',
    'Example: workbook-mirror history list Accounting/main',
  )
    .argument('[target]', 'a target as below mirror/')
    .option('--json', 'print the list as JSON')
    .action(async (target: string | undefined, options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { describeHistory, listHistory } = await import('./history.ts');
      const kept = await listHistory(settings, target ?? null);
      if (options.json) printJson(kept);
      else printData(describeHistory(kept));
    });
  declare(
    history,
    'restore',
    'disk',
    'bring a tree back, into the mirror or into another folder',
    'Into the mirror only while no daemon runs there and the target is not mirrored; it stays there until the service has ' +
      'it again or `approve` lets it go. With --to it is copied into a folder elsewhere, at any time.\n\n' +
      'Example: workbook-mirror history restore Accounting/main --at 2026-11-21T10:00:00Z --to /tmp/accounting',
  )
    .argument('<target>', 'a target as below mirror/')
    .option('--at <time>', 'the state that the mirror had at this time; otherwise the latest that is kept')
    .option('--to <folder>', 'a folder that does not exist yet')
    .option('--json', 'print what was restored as JSON')
    .action(async (target: string, options: { at?: string; to?: string; json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { describeRestored, parseTime, restoreHistory } = await import('./history.ts');
      const atMs = options.at === undefined ? null : parseTime(options.at);
      const request = { target, atMs, to: options.to ?? null };
      const restored = await showingBytes((onBytes) => restoreHistory(settings, request, onBytes));
      if (options.json) printJson(restored);
      else printData(describeRestored(restored));
    });
}
