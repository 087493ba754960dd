import { readFileSync } from 'node:fs';
import { styleText } from 'node:util';

import type { Command } from 'commander';

import { MirrorError } from '../model/errors.ts';
import { mayColor } from '../model/terminal.ts';
import { parseInline } from '../manual/inline.ts';
import { type Block, parseMarkdown } from '../manual/markdown.ts';
import { renderManualPage } from '../manual/roff.ts';
import { renderForTerminal } from '../manual/terminal.ts';
import { findTopic, type Topic, topicsOf } from '../manual/topics.ts';
import { isSettingFlag } from './command-tree.ts';

const README = new URL('../../README.md', import.meta.url);

/** What a terminal has where nobody says. */
const USUAL_COLUMNS = 80;

/** The manual: the README that comes with this package; null where that was taken away. */
function readManual(): Block[] | null {
  try {
    return parseMarkdown(readFileSync(README, 'utf8'));
  } catch {
    return null;
  }
}

/** The sections of the manual that `help TOPIC` shows. */
export function manualTopics(): readonly Topic[] {
  return topicsOf(readManual() ?? []);
}

/** Shows a section of the manual. @throws MirrorError `usage.invalid` when there is none of that name */
export function showTopic(asked: string, commands: readonly string[]): string {
  const manual = readManual();
  if (manual === null) {
    throw new MirrorError('usage.invalid', `The manual is not there: ${README.pathname} cannot be read.`, {
      hint: 'It comes with the package. `workbook-mirror help` lists the commands.',
    });
  }
  const found = findTopic(topicsOf(manual), asked, commands);
  if (found.topic !== undefined) return renderForTerminal(found.topic.blocks, terminalOf(process.stdout));
  throw new MirrorError('usage.invalid', `There is neither a command nor a topic ${JSON.stringify(asked)}.`, {
    hint: `${didYouMean(found.near)}\`help\` lists all of them.`,
  });
}

function didYouMean(near: readonly string[]): string {
  if (near.length === 0) return '';
  return `Did you mean ${near.map((name) => `\`help ${name}\``).join(' or ')}? `;
}

function terminalOf(stream: NodeJS.WriteStream): Parameters<typeof renderForTerminal>[1] {
  return {
    // Some terminals that nobody told their size say 0.
    width: (stream.isTTY && stream.columns) || USUAL_COLUMNS,
    emphasise: mayColor(process.env, stream.isTTY)
      ? (text, style) =>
          style === 'plain' ? text : styleText(STYLES[style], text, { validateStream: false })
      : null,
  };
}

const STYLES = { strong: 'bold', emphasis: 'italic', code: 'cyan', heading: 'bold' } as const;

/** The manual as the source of a manual page: what it is, the README's sections, and the flags of every command. */
export function manualPage(program: Command, version: string): string {
  const manual = readManual() ?? [];
  const start = manual.findIndex(({ kind }, index) => index > 0 && kind === 'heading');
  const [introduction, sections] = [manual.slice(1, start), manual.slice(start)];
  return renderManualPage({ name: program.name(), version, summary: program.description() }, [
    heading(2, 'Synopsis'),
    { kind: 'paragraph', spans: parseInline(`**${program.name()}** *command* [*flag*…] [*argument*…]`) },
    heading(2, 'Description'),
    ...introduction,
    ...sections,
    heading(2, 'Flags of the commands'),
    paragraph(
      'Most commands also take `--config FILE` and each setting as a flag, by its name in dashes: see Settings.',
    ),
    ...leaves(program).flatMap(commandBlocks),
  ]);
}

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

function commandBlocks(command: Command): Block[] {
  const help = command.createHelp();
  const rows = help
    .visibleOptions(command)
    .filter((option) => !isSettingFlag(option))
    .map((option) => [parseInline(`\`${option.flags}\``), parseInline(option.description)]);
  return [
    heading(3, help.commandUsage(command).replace(' [options]', '')),
    ...command.description().split('\n\n').map(descriptionBlock),
    { kind: 'table', headings: [parseInline('flag'), parseInline('does')], rows },
  ];
}

/** What a description shows as an example keeps its lines. */
function descriptionBlock(text: string): Block {
  return text.startsWith('Example: ') ? { kind: 'code', lines: text.split('\n') } : paragraph(text);
}

function heading(level: number, text: string): Block {
  return { kind: 'heading', level, spans: [{ text, style: 'plain' }] };
}

function paragraph(text: string): Block {
  return { kind: 'paragraph', spans: parseInline(text) };
}
