import type { Command } from 'commander';

import { settingDescriptors } from '../../config/descriptors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { packageVersion } from '../../lib/process/program-folder.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { escapedLines, type TerminalText } from '../../lib/text/terminal-text.ts';
import { CHAPTERS, findTopic, readChapter, readTopics } from '../../manual/chapters.ts';
import { addAllPendingFlags, addPendingFlags } from '../frame/declare.ts';
import type { Outcome } from '../frame/output.ts';
import { configureHelp, EXIT_CODE_HELP, pathOf, programOf } from './help-screen.ts';
import { meaningsOf } from './words.ts';

/** `help` */
export async function runHelp(command: Command): Promise<Outcome> {
  const { man }: { man?: true } = command.opts();
  const program = programOf(command);
  if (man === true) {
    await addAllPendingFlags(program);
    return { text: () => escapedLines(manualPage(program)) };
  }
  const explained = findCommand(program, command.args);
  if (explained === undefined) return { text: () => showTopic(command.args.join(' '), program) };
  await addPendingFlags(explained);
  configureHelp(explained, true);
  explained.outputHelp();
  const chapter = CHAPTERS.find((name) => name === command.args.join(' '));
  return { text: () => (chapter === undefined ? null : escapedLines(`\n${readChapter(chapter)}`)) };
}

/** The command with a path of names; without names, the program itself. */
function findCommand(program: Command, names: readonly string[]): Command | undefined {
  let command: Command | undefined = program;
  for (const name of names) command = command?.commands.find((each) => each.name() === name);
  return command;
}

/**
 * A section of the manual in Markdown, or the meaning of a word that the program prints or the manual uses.
 * @throws MirrorError `usage.invalid` if nothing has that name
 */
function showTopic(asked: string, program: Command): TerminalText {
  const commands = program.commands.map((each) => each.name());
  const found = findTopic(readTopics(), asked, commands);
  const name = asked.toLowerCase().replaceAll(' ', '-');
  if ('text' in found && [found.name, found.file].includes(name)) return escapedLines(`${found.text}\n`);
  // `disk full` is the code disk.full.
  const meanings = [asked, asked.replaceAll(' ', '.')].map(meaningsOf).find(({ length }) => length > 0) ?? [];
  const lines = [...meanings, ...aboutWord(asked.replace(/^workbook_mirror_/, ''))];
  if (meanings.length > 0 || (lines.length > 0 && !('text' in found)))
    return escapedLines(`${lines.slice(0, MOST_LINES).join('\n')}\n`);
  if ('text' in found) return escapedLines(`${found.text}\n`);
  const meant = found.map((name) => `\`help ${name}\``).join(' or ');
  throw new MirrorError('usage.invalid', `There is neither a command nor a topic ${JSON.stringify(asked)}.`, {
    hint: `${meant === '' ? '' : `Did you mean ${meant}? `}\`${ownCommand('help')}\` lists all of them.`,
  });
}

/** Width of the help of a command: a manual page indents it by 7 of 80 columns. */
const HELP_COLUMNS = 72;

/** The source of a manual page of section 1 (man(7)): the help of all commands, and the settings. */
function manualPage(program: Command): string {
  const name = program.name();
  const commands = leaves(program).flatMap((command) => [
    `.SS ${roff(pathOf(command))}\n.nf`,
    `${roff(helpOf(command))}\n.fi`,
  ]);
  const settings = settingDescriptors.map(
    (setting) => `.TP\n${roff(setting.name)}\n${roff(setting.description)}`,
  );
  return [
    `.TH ${name.toUpperCase()} 1 "" "${name} ${packageVersion()}"`,
    `.SH NAME\n${roff(`${name} - ${program.description()}`)}`,
    '.SH COMMANDS',
    ...commands,
    `.SH EXIT STATUS\n.nf\n${roff(EXIT_CODE_HELP.trim())}\n.fi`,
    '.SH SETTINGS',
    ...settings,
    '',
  ].join('\n');
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

function helpOf(command: Command): string {
  const help = command.createHelp();
  help.prepareContext({ helpWidth: HELP_COLUMNS });
  return help.formatHelp(command, help).trimEnd();
}

/** Roff would replace these by typographic signs, which cannot be copied into a shell. */
const SIGNS: Readonly<Record<string, string>> = {
  '\\': '\\e',
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
};

/** Plain text for roff: a line that begins with a dot is no request. */
function roff(text: string): string {
  return text.replaceAll(/[\\\-'`^~]/g, (sign) => SIGNS[sign] ?? sign).replaceAll(/^\./gm, '\\&.');
}

/**
 * The passages of a chapter in Markdown, without code and the headings of tables: a line for each row, item or paragraph. The subject of a
 * row is its first cell.
 */
export function passagesOf(chapter: string, markdown: string) {
  return markdown
    .replaceAll(/^ *```[^]*?^ *```$/gm, '')
    .replaceAll(/<!--.*?-->/gs, '')
    .replaceAll(/^\|.*\n\|[ -]*-.*$/gm, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-|]|\d+\.) ?)/)
    .map((block) => block.trim().replaceAll(/\s*\n\s*/g, ' '))
    .filter((text) => text !== '' && !/^[#<]/.test(text))
    .map((text) => ({ chapter, subject: /^\|(.*?)\|/.exec(text)?.[1] ?? '', text }));
}

/** Maximum number of lines about a word. */
export const MOST_LINES = 10;

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

/**
 * The passages about a word: rows with it in their first cell or, if there are none, all passages with each of its words.
 * @returns at most ten lines for a person; empty if there is nothing
 */
export function aboutWord(
  asked: string,
  passages = CHAPTERS.flatMap((chapter) => passagesOf(chapter, readChapter(chapter))),
): string[] {
  const word = asked.toLowerCase();
  const has = (text: string, part: string): boolean =>
    new RegExp(`(?<![\\w.-])${escaped(part)}(?![\\w-]|\\.\\w)`, 'i').test(text);
  const about = passages.filter(({ subject }) => has(subject, word));
  const parts = word.split(/\s+/).filter((part) => part !== '');
  const found =
    about.length > 0 ? about : passages.filter(({ text }) => parts.every((part) => has(text, part)));
  const lines = found.flatMap(({ chapter, text }) => [text, `  (help ${chapter})`]);
  return lines.slice(0, MOST_LINES);
}
