import { Command, CommanderError } from 'commander';

import { EXIT_CODES, MirrorError } from '../model/errors.ts';
import { printable } from '../model/humanize.ts';
import { addConfigCommands } from './config-commands.ts';
import { addPendingFlags } from './declare.ts';
import { addGuardCommands, addHistoryCommands } from './history-commands.ts';
import { addHelpCommands } from './help-commands.ts';
import { addKeyCommands } from './key-commands.ts';
import { addLeaseCommands } from './lease-commands.ts';
import { takeLoudness } from './loudness.ts';
import { addMirrorCommands } from './mirror-commands.ts';
import { tell } from './output.ts';
import { addReportCommands } from './report-commands.ts';
import { addListCommands, addProbeCommand, addServiceCommands } from './service-commands.ts';
import { addVerifyCommand } from './verify-command.ts';
import { packageVersion } from './version.ts';

/** What a command line comes to. */
export interface ProgramResult {
  /** One of {@link EXIT_CODES}, except where a command ends as the program did that it ran. */
  readonly exitCode: number;
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
  let exitCode: number = EXIT_CODES.ok;
  const program = new Command('workbook-mirror')
    .description('Keeps an exact, always readable copy of a workbook version-control service on local disk.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .addHelpText('after', EXIT_CODE_HELP)
    .hook('preAction', (_program, command) => takeLoudness(command))
    .exitOverride()
    .configureOutput({ outputError: () => {} });
  const setExitCode = (code: number): void => {
    exitCode = code;
  };
  addMirrorCommands(program, setExitCode);
  addReportCommands(program, setExitCode);
  addVerifyCommand(program, setExitCode);
  addGuardCommands(program);
  addHistoryCommands(program);
  addLeaseCommands(program, setExitCode);
  addListCommands(program);
  addProbeCommand(program, setExitCode);
  addConfigCommands(program);
  addServiceCommands(program, setExitCode);
  addKeyCommands(program, setExitCode);
  addHelpCommands(program);
  for (const group of [program, ...program.commands])
    group.hook('preSubcommand', (_group, command) => addPendingFlags(command));
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

/** Tells a person what went wrong and what to do about it. */
export function tellError(error: MirrorError): void {
  const lines = [
    `workbook-mirror: ${error.message}`,
    ...(error.hint === undefined ? [] : [`  ${error.hint}`]),
  ];
  if (error.code === 'internal.defect' && error.cause instanceof Error) lines.push(error.cause.stack ?? '');
  const text = lines.join('\n').split('\n').map(printable).join('\n');
  tell(text, 'error');
}
