import { Command, CommanderError } from 'commander';

import { EXIT_CODES, exitCodeOf, MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { packageVersion } from '../../lib/process/program-folder.ts';
import { forgetOutput, standardError, standardOutput } from '../../lib/process/streams.ts';
import { ownCommand, programOf, rememberInvocation } from '../../lib/text/own-command.ts';
import { escapedLines } from '../../lib/text/terminal-text.ts';
import { configureHelp } from '../help/help-screen.ts';
import { addPendingFlags, carryOut } from './declare.ts';
import {
  addDecisionCommands,
  addHistoryCommands,
  addLeaseCommands,
  addPassCommands,
  addReportCommands,
} from './mirror-commands.ts';
import { printOutcome, takeLoudness, tellFailure } from './output.ts';
import { addConfigCommands, addHelpCommands, addInitCommand } from './program-commands.ts';
import { addListCommands, addServiceCommands } from './service-commands.ts';

/**
 * Parses a command line, runs its command, and reports its error. The code of a command is loaded only when it runs.
 * @param argv as in `process.argv`
 * @returns one of {@link EXIT_CODES}, or the exit code of a program which the command ran
 */
export async function runProgram(argv: readonly string[]): Promise<{ readonly exitCode: number }> {
  forgetOutput();
  try {
    return { exitCode: await runCommand(argv) };
  } catch (error) {
    const mirrorError = toMirrorError(error);
    tellFailure(mirrorError, argv);
    return { exitCode: exitCodeOf(mirrorError) };
  }
}

/** @throws MirrorError any error of the command; `usage.invalid` for a bad command line */
async function runCommand(argv: readonly string[]): Promise<number> {
  // Loaded settings add to it.
  rememberInvocation({ program: programOf(process.env), diskFlags: [], passFlags: [] });
  refuseGoneFolder();
  const command = await parse(argv);
  if (command === undefined) return EXIT_CODES.ok;
  takeLoudness(command);
  const outcome = await carryOut(command);
  if (outcome.failure === undefined) printOutcome(command, outcome);
  else tellFailure(outcome.failure, argv);
  return outcome.exitCode ?? EXIT_CODES.ok;
}

/** Named paths begin in the working folder, and a shell may be in a tree that was replaced. @throws MirrorError `usage.invalid` */
function refuseGoneFolder(): void {
  try {
    process.cwd();
  } catch (cause) {
    throw new MirrorError('usage.invalid', 'The working folder is gone: it was removed or replaced.', {
      cause,
      hint: 'Change to another folder, and repeat the command.',
    });
  }
}

/** The command of a command line; undefined if it asked for help, which is printed. @throws MirrorError `usage.invalid` */
async function parse(argv: readonly string[]): Promise<Command | undefined> {
  const asked: Command[] = [];
  const program = createProgram().hook('preAction', (_program, command) => void asked.push(command));
  try {
    await program.parseAsync(argv);
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw await usageError(error);
  }
  return asked[0];
}

/** The whole command line interface. */
export function createProgram(): Command {
  const program = new Command('workbook-mirror')
    .description('Keeps an exact, always readable copy of a workbook version-control service on local disk.')
    .version(packageVersion(), '-V, --version', 'print the version')
    .exitOverride()
    .helpCommand(false)
    .configureOutput({
      writeOut: (text) => standardOutput.write(escapedLines(text)),
      writeErr: (text) => standardError.write(escapedLines(text)),
      outputError: () => {},
    });
  configureHelp(program, false);
  addServiceCommands(program.commandsGroup('Try:'));
  addInitCommand(program.commandsGroup('Mirror:'));
  addPassCommands(program);
  addConfigCommands(program);
  addReportCommands(program.commandsGroup('Look:'));
  addDecisionCommands(program.commandsGroup('Decide:'));
  addHistoryCommands(program);
  addLeaseCommands(program);
  addListCommands(program.commandsGroup('Ask:'));
  addHelpCommands(program.commandsGroup('Learn:'));
  for (const group of [program, ...program.commands])
    group.hook('preSubcommand', (_group, command) => addPendingFlags(command));
  return program;
}

async function usageError(error: CommanderError): Promise<MirrorError> {
  if (error.code === 'commander.help')
    return new MirrorError('usage.invalid', 'A command is needed: see above.');
  // A value behind an equals sign may be a secret.
  const message = error.message.replace(/(unknown option '-[^=']*)=[^]*?'(?=$|\n\(Did)/, "$1'");
  const [, flag] = /unknown option '(-[^']*)'/.exec(message) ?? [];
  if (flag !== undefined) {
    const { fileSettingOf, kebabName, settingDescriptors } = await import('../../config/descriptors.ts');
    const secret = settingDescriptors.find((each) => each.secret && `--${kebabName(each.name)}` === flag);
    if (secret !== undefined)
      return new MirrorError(
        'usage.invalid',
        `There is no flag ${flag}: every user of this machine can read the flags of a program.`,
        {
          hint: `Give a file that holds the secret, ${fileSettingOf(secret.name)?.flag ?? ''} FILE, or set the variable ${secret.environmentVariable}.`,
        },
      );
  }
  const [, problem = message, suggestion] =
    /^(?:error: )?(.*?)(?:\n(\(Did you mean [^\n]*\)))?$/s.exec(message) ?? [];
  return new MirrorError('usage.invalid', suggestion === undefined ? problem : [problem, suggestion], {
    hint: `\`${ownCommand('help')}\` lists the commands, \`${ownCommand('help')} COMMAND\` the flags of one, which follow the command.`,
  });
}
