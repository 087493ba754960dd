import type { Command } from 'commander';

import { settingDescriptors } from '../../config/descriptors.ts';
import { CHAPTERS } from '../../manual/chapters.ts';
import { EXIT_CODE_HELP } from './help-screen.ts';

/** Columns of the help of a command, which a manual page indents by 7 of 80. */
const HELP_COLUMNS = 72;

/** The source of a manual page of section 1 (man(7)): the help of all commands, and the settings. */
export function manualPage(program: Command, version: string): string {
  const name = program.name();
  return [
    `.TH ${name.toUpperCase()} 1 "" "${name} ${version}"`,
    // A name in which a word is broken, or a space is widened, could not be told from another.
    '.nh',
    '.ad l',
    '.SH NAME',
    `${escaped(name)} \\- ${escaped(program.description())}`,
    '.SH COMMANDS',
    ...asItIs(helpOf(program)),
    ...leaves(program).flatMap((command) =>
      [`.SS ${escaped(pathOf(command))}`].concat(asItIs(helpOf(command))),
    ),
    '.SH EXIT STATUS',
    ...asItIs(EXIT_CODE_HELP.trim().split('\n')),
    '.SH SETTINGS',
    ...settingDescriptors.flatMap((setting) => [
      '.TP',
      `\\fB${escaped(setting.name)}\\fR`,
      escaped(setting.description),
    ]),
    '.SH SEE ALSO',
    `${escaped(`${name} help`)} with one of: ${CHAPTERS.map(escaped).join(', ')}`,
    '',
  ].join('\n');
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

function helpOf(command: Command): string[] {
  const help = command.createHelp();
  help.prepareContext({ helpWidth: HELP_COLUMNS });
  return help.formatHelp(command, help).trimEnd().split('\n');
}

function asItIs(lines: readonly string[]): string[] {
  return ['.nf', ...lines.map(escaped), '.fi'];
}

/** Roff shows these as typographic signs, which cannot be copied into a shell. */
const SIGNS: Readonly<Record<string, string>> = {
  '\\': '\\e',
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
};

/** A text on a line of its own; one that begins with a dot is no request. */
function escaped(text: string): string {
  const shown = text.replaceAll(/[\\\-'`^~]/g, (sign) => SIGNS[sign] ?? sign);
  return shown.startsWith('.') ? `\\&${shown}` : shown;
}
