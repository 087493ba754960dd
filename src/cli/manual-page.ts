import type { Command } from 'commander';

import { parseInline } from '../manual/inline.ts';
import type { Block } from '../manual/markdown.ts';
import { renderManualPage } from '../manual/roff.ts';
import { isSettingFlag } from './command-tree.ts';
import { readManual } from './manual.ts';

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
