import { type Command, Help, Option } from 'commander';

import { ownCommand } from '../../lib/text/own-command.ts';
import { readTopics } from '../../manual/chapters.ts';

/** Commands by what people do with them, in the order of a first day. */
const GROUPS: readonly (readonly [string, readonly string[]])[] = [
  ['Try', ['demo', 'serve', 'keys']],
  ['Mirror', ['run', 'sync', 'poll', 'plan', 'config']],
  ['Look', ['status', 'why', 'diff', 'verify']],
  ['Decide', ['approve', 'retry', 'forget', 'history', 'lease']],
  ['Ask', ['repos', 'workbooks', 'probe']],
  ['Learn', ['help', 'completion']],
];

/** The exit codes, for the help of the program. */
export const EXIT_CODE_HELP = `
Exit codes of run and sync:
  0   every selected target is verified fresh (run: it was told to stop)
  1   some target failed, is held or quarantined; the others are done
  2   usage or settings
  3   the service is unreachable or refuses the credentials
  4   another instance holds the directory
  70  a defect of workbook-mirror`;

/** Columns that a description keeps at least beside long flags, where a terminal has 80. */
const LEAST_COLUMNS = 20;

/** Columns that a flag takes at most where the help is to fit a screen. */
const LONGEST_TERM = 36;

/** Flags that only the whole help of a command shows. */
const forWhole = new WeakMap<Command, Set<Option>>();

/** Programs of which the whole help is to be shown. */
const whole = new WeakSet<Command>();

const WHOLE_FLAG = '--help-all';

/** Leaves a flag to the whole help of a command. */
export function keepForWhole(command: Command, option: Option): void {
  const kept = forWhole.get(command) ?? new Set();
  forWhole.set(command, kept.add(option));
}

/** Makes a program, and all commands below it, show their whole help from now on. */
export function showWhole(program: Command): void {
  whole.add(program);
}

/**
 * Takes `--help-all` from a command line, and leaves `--help` there, which commander answers before it asks for what a command cannot
 * do without.
 */
export function takeWholeHelp(program: Command, argv: readonly string[]): string[] {
  const end = argv.indexOf('--');
  return argv.map((word, index) => {
    if (word !== WHOLE_FLAG || (end !== -1 && index > end)) return word;
    showWhole(program);
    return '--help';
  });
}

/**
 * Gives a command and all below it a help that fits a screen, and `--help-all` for the whole one. Their subcommands must be there.
 */
export function addHelpScreens(command: Command): void {
  const isProgram = command.parent === null;
  if (isProgram || command.commands.length === 0) {
    const text = isProgram ? 'with exit codes and topics' : 'display every setting, too';
    command.addOption(new Option(WHOLE_FLAG, text));
  }
  command.configureHelp({
    minWidthToWrap: LEAST_COLUMNS,
    formatHelp: isProgram ? programHelp : commandHelp,
  });
  for (const child of command.commands) addHelpScreens(child);
}

/** Leaves flags out of what is shown only: suggestions and completions go by all of them. */
function commandHelp(command: Command, helper: Help): string {
  const kept = forWhole.get(command);
  if (kept === undefined || whole.has(programOf(command))) return helpOf(command, helper);
  const shown = Object.assign(new Help(), helper, {
    visibleOptions: (of: Command) => helper.visibleOptions(of).filter((option) => !kept.has(option)),
    optionTerm: (option: Option) => shortTerm(helper.optionTerm(option)),
  });
  return `${helpOf(command, shown)}\nAll settings: ${ownCommand(`${pathOf(command)} --help-all`)}\n`;
}

function helpOf(command: Command, helper: Help): string {
  return Help.prototype.formatHelp.call(helper, command, helper);
}

/** The flag of a choice among many words without these, which would leave no room beside them. */
function shortTerm(term: string): string {
  return term.length > LONGEST_TERM ? term.replace(/<[^>]*>$/, '<word>') : term;
}

/** The program that a command belongs to. */
export function programOf(command: Command): Command {
  return command.parent === null ? command : programOf(command.parent);
}

function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}

function programHelp(program: Command, helper: Help): string {
  if (whole.has(program)) return `${helpOf(program, helper)}${EXIT_CODE_HELP}\n${topicsText()}`;
  const summaries = new Map(program.commands.map((command) => [command.name(), command.summary()]));
  const lines = GROUPS.flatMap(([group, names]) =>
    names.map((name, index) => {
      const start = (index === 0 ? group : '').padEnd(8);
      return `  ${start}${name.padEnd(12)}${summaries.get(name) ?? ''}`;
    }),
  );
  return [
    `Usage: ${program.name()} COMMAND [FLAG...] [ARGUMENT...] (--help-all: everything)`,
    ...lines,
    '',
  ].join('\n');
}

function topicsText(): string {
  const topics = readTopics();
  if (topics.length === 0) return '';
  return `\nTopics of the manual, shown by \`help TOPIC\`:\n${topics.map(({ name }) => `  ${name}\n`).join('')}`;
}
