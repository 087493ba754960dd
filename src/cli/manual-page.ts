import type { Command } from 'commander';

import { CHAPTERS } from '../manual/chapters.ts';
import { type Block, parseInline } from '../manual/markdown.ts';
import { renderManualPage } from '../manual/roff.ts';
import { isSettingFlag } from './command-tree.ts';
import { readChapter } from './manual.ts';

/** The chapters in the manual page; `help` shows the others. */
const OF_PAGE = ['commands', 'settings', 'on-disk', 'troubleshooting'] as const;

/** The source of a manual page: commands with their flags, exit codes, settings and files. */
export function manualPage(program: Command, version: string): string {
  return renderManualPage({ name: program.name(), version, summary: program.description() }, [
    heading(2, 'Synopsis'),
    { kind: 'paragraph', spans: parseInline(`**${program.name()}** *command* [*flag*…] [*argument*…]`) },
    ...OF_PAGE.flatMap((name) => readChapter(name) ?? []),
    heading(2, 'Flags of the commands'),
    paragraph(
      'Most commands also take `--config FILE` and each setting as a flag, by its name in dashes: see Settings.',
    ),
    ...leaves(program).flatMap(commandBlocks),
    heading(2, 'See also'),
    paragraph(`Other chapters of the manual are shown by \`${program.name()} help NAME\`: ${othersOf()}.`),
  ]);
}

function othersOf(): string {
  const shown: readonly string[] = OF_PAGE;
  return CHAPTERS.filter((name) => !shown.includes(name))
    .map((name) => `\`${name}\``)
    .join(', ');
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

/** A paragraph of a description; an example keeps its lines. */
function descriptionBlock(text: string): Block {
  return text.startsWith('Example: ') ? { kind: 'code', lines: text.split('\n') } : paragraph(text);
}

function heading(level: number, text: string): Block {
  return { kind: 'heading', level, spans: [{ text, style: 'plain' }] };
}

function paragraph(text: string): Block {
  return { kind: 'paragraph', spans: parseInline(text) };
}
