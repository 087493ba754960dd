import { type Command, Help, type Option } from 'commander';

import { ownCommand } from '../../lib/text/own-command.ts';
import { readTopics } from '../../manual/chapters.ts';

/** The exit codes, for the help of the program. */
export const EXIT_CODE_HELP = `
Exit codes of run and sync:
  0   every selected target is verified fresh (run: a signal stopped it)
  1   some target failed, is held or quarantined; the others are done
  2   usage or settings
  3   the service is unreachable or refuses the credentials
  4   another instance holds the directory
  70  a defect of workbook-mirror`;

/** The heading of settings that only `help COMMAND` shows. */
export const MORE_SETTINGS = 'More settings:';

/** Minimum width of descriptions beside long flags, of 80 columns. */
const LEAST_COLUMNS = 20;

/** Maximum width of flags in a help that fits a screen. */
const LONGEST_TERM = 36;

/** Gives a command, and those that it gets later, a help that fits a screen, or the whole help. */
export function configureHelp(command: Command, isWhole: boolean): void {
  command.configureHelp({
    minWidthToWrap: LEAST_COLUMNS,
    commandDescription: describe,
    formatHelp: (of, helper) => {
      if (isWhole) return wholeHelp(of, helper);
      return of.parent === null ? listOfCommands(of) : shortHelp(of, helper);
    },
  });
}

/** The description of a command follows its summary; that of a group replaces it. */
function describe(command: Command): string {
  const summary = command.summary();
  const sentence = `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`;
  if (command.commands.length > 0) return command.description() || sentence;
  return `${sentence}\n\n${command.description()}`;
}

function wholeHelp(command: Command, helper: Help): string {
  const text = Help.prototype.formatHelp.call(helper, command, helper);
  if (command.parent !== null) return text;
  const topics = readTopics().map(({ name }) => `  ${name}\n`);
  return `${text}${EXIT_CODE_HELP}\n\nTopics of the manual, shown by \`help TOPIC\`:\n${topics.join('')}`;
}

/** The help of a command with its usual flags. */
function shortHelp(command: Command, helper: Help): string {
  const isShown = (option: Option): boolean => option.helpGroupHeading !== MORE_SETTINGS;
  if (command.options.every(isShown)) return Help.prototype.formatHelp.call(helper, command, helper);
  const short = Object.assign(new Help(), helper, {
    visibleOptions: (of: Command) => helper.visibleOptions(of).filter(isShown),
    optionTerm: (option: Option) => shortTerm(helper.optionTerm(option)),
  });
  const text = Help.prototype.formatHelp.call(short, command, short);
  return `${text}\nAll settings: ${ownCommand(`help ${pathOf(command)}`)}\n`;
}

/** A flag without its many choices, which would leave no room for a description. */
function shortTerm(term: string): string {
  return term.length > LONGEST_TERM ? term.replace(/<[^>]*>$/, '<word>') : term;
}

/** The commands by group, on one screen. */
function listOfCommands(program: Command): string {
  let last = '';
  const lines = program.commands.map((command) => {
    const group = command.helpGroup() === last ? '' : command.helpGroup();
    last = command.helpGroup();
    return `  ${group.padEnd(8)}${command.name().padEnd(12)}${command.summary()}\n`;
  });
  return `Usage: ${program.name()} COMMAND [FLAG...] [ARGUMENT...] (\`help\`: everything)\n${lines.join('')}`;
}

/** The program of a command. */
export function programOf(command: Command): Command {
  return command.parent === null ? command : programOf(command.parent);
}

/** The names of a command and its parents, without the program's. */
export function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}
