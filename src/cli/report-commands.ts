import type { Command } from 'commander';

import { EXIT_CODES } from '../lib/errors/errors.ts';
import { declare, type SetExitCode } from './declare.ts';
import { printData, printJson } from './output.ts';

/** Declares the commands that report on the mirror: `status`, `why`. */
export function addReportCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'status',
    'disk',
    'say how every target stands',
    'Reads the disk, also beside a running daemon. Ends with 1 when a target is not verified fresh.\n\n' +
      'Example: workbook-mirror status --directory /var/lib/workbook-mirror',
  )
    .option('--json', 'print the report as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['directory']);
      const { describeStatus, isAllWell, status } = await import('./status.ts');
      const report = await status(settings);
      if (options.json) printJson(report);
      else printData(describeStatus(report));
      setExitCode(isAllWell(report) ? EXIT_CODES.ok : EXIT_CODES.incomplete);
    });
  declare(
    program,
    'why',
    'disk',
    'explain a target or a file, and say what comes next',
    'Tells the decisions that were taken about it. Of a file whose name alone is given it says in which places it is, of a target ' +
      'that was retired when it left.\n\n' +
      'Example: workbook-mirror why Accounting/main\n         workbook-mirror why "mirror/Accounting/main/Budget 2026.xlsx"',
  )
    .argument('<target-or-path>', 'a target as below mirror/, a file in one, or the name of a file')
    .option('--json', 'print the explanation as JSON')
    .action(async (asked: string, options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings, sources, configFile } = settingsOf(command, ['directory']);
      const isScheduleKnown = configFile !== undefined || sources['schedule']?.kind !== 'default';
      const { describeExplanation, why } = await import('./why.ts');
      const explanation = await why(settings, asked, isScheduleKnown);
      if (options.json) printJson(explanation);
      else printData(describeExplanation(explanation));
    });
}
