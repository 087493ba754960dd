import type { Command } from 'commander';

import { unmatchedSentence } from '../mirror/plan/sentences.ts';
import { say } from '../lib/text/terminal-text.ts';
import { declare, type SetExitCode } from './declare.ts';
import { printData, printJson, tell } from './output.ts';

/** The flag for a first mirror beside other data. */
const ADOPT = ['--adopt', 'make the first mirror in a folder that is not empty'] as const;

/** Declares the commands that mirror: `run`, `sync`, `plan`. */
export function addMirrorCommands(program: Command, setExitCode: SetExitCode): void {
  declare(
    program,
    'run',
    'run',
    'run the daemon',
    'Makes a pass at once, then one at every tick of `schedule`. Logs JSON lines to standard output, or readable lines on a ' +
      'terminal. SIGHUP asks for a pass now; SIGTERM and SIGINT stop it.\n\n' +
      'Example: workbook-mirror run --config /etc/workbook-mirror/config.yaml',
  )
    .option(...ADOPT)
    .action(async (options: { adopt?: true }, command: Command) => {
      // Node calls its main thread MainThread, by which nobody would find the daemon in a list of processes.
      process.title = ['workbook-mirror', ...process.argv.slice(2)].join(' ');
      const { settingsOf } = await import('./settings-flags.ts');
      const load = () => settingsOf(command, ['service', 'directory']);
      const { run } = await import('../daemon/run.ts');
      setExitCode(await run(load, options.adopt));
    });
  declare(
    program,
    'sync',
    'pass',
    'make one pass, then exit',
    'Polls the service, pulls and publishes what changed, and says how it went by its exit code. Targets that failed ' +
      'before are tried at once, those in quarantine, too.\n\nExample: workbook-mirror sync --json',
  )
    .option('--json', 'print the outcome as JSON')
    .option(...ADOPT)
    .action(async (options: { json?: true; adopt?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['service', 'directory']);
      const { describeHooksDue, progressOf, sync, syncData } = await import('./sync.ts');
      const { report, hooksDue, exitCode } = await sync(settings, progressOf(settings), {
        adopt: options.adopt === true,
      });
      if (hooksDue > 0) tell(describeHooksDue(hooksDue), 'warn');
      if (options.json) printJson(syncData(report));
      setExitCode(exitCode);
    });
  declare(
    program,
    'plan',
    'pass',
    'say what a pass would do, and why; change nothing',
    'Polls the service and compares it with what is mirrored. Sizes are those of the last pull.\n\n' +
      'Example: workbook-mirror plan --json',
  )
    .option('--json', 'print the plan as JSON')
    .action(async (options: { json?: true }, command: Command) => {
      const { settingsOf } = await import('./settings-flags.ts');
      const { settings } = settingsOf(command, ['service', 'directory']);
      const { describePlan, plan, planData } = await import('./plan.ts');
      const { actions, selection } = await plan(settings);
      for (const each of selection.unmatched) tell(say`! ${unmatchedSentence(each)}`, 'warn');
      if (options.json) printJson(planData(actions));
      else printData(describePlan(actions));
    });
}
