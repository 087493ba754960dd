import { escaped, joined, joinLines, say, type Shown, type TerminalText } from '../lib/text/terminal-text.ts';
import type { Block, ListItem, Span, SpanStyle } from './markdown.ts';
import { longestWord, type Show, widthOf, wrap } from './wrap.ts';

/** How a text is laid out. */
export interface TerminalOptions {
  /** Columns of the terminal. */
  readonly width: number;
  /** Emphasises text; null where nothing may be emphasised, and code keeps its quotes instead. */
  readonly emphasise: ((text: Shown, style: SpanStyle | 'heading') => TerminalText) | null;
}

/** Lines longer than this are hard to read. */
const WIDEST = 100;
const NARROWEST = 20;
const GAP = '  ';
const EMPTY = say``;

interface Layout {
  readonly width: number;
  readonly show: Show;
  readonly heading: (text: Shown) => TerminalText;
  readonly marked: (spans: readonly Span[]) => readonly Span[];
}

/** Lays out a text for a terminal: wrapped to its width, except for code, which stays as it is. */
export function renderForTerminal(
  blocks: readonly Block[],
  { width, emphasise }: TerminalOptions,
): TerminalText {
  const layout: Layout = {
    width: Math.min(WIDEST, Math.max(NARROWEST, width)),
    show: emphasise ?? escaped,
    heading: (text) => emphasise?.(text, 'heading') ?? say`${text}`,
    marked: emphasise === null ? quoted : (spans) => spans,
  };
  return say`${joinLines(renderBlocks(blocks, layout).map((line) => line.trimEnd()))}\n`;
}

/** Code in quotes, so that it is told from words without any emphasis. */
function quoted(spans: readonly Span[]): Span[] {
  return spans.map(({ text, style }) =>
    style === 'code' ? { text: `\`${text}\``, style: 'plain' } : { text, style: 'plain' },
  );
}

function renderBlocks(blocks: readonly Block[], layout: Layout): TerminalText[] {
  return blocks.flatMap((block, index) => [...(index === 0 ? [] : [EMPTY]), ...renderBlock(block, layout)]);
}

function renderBlock(block: Block, layout: Layout): TerminalText[] {
  switch (block.kind) {
    case 'heading':
      return headingLines(block, layout);
    case 'paragraph':
      return wrapped(block.spans, layout.width, layout);
    case 'code':
      return indented(block.lines, GAP);
    case 'quote':
      return indented(renderBlocks(block.blocks, narrower(layout, 2)), '│ ');
    case 'list':
      return listLines(block.items, layout);
    case 'table':
      return tableLines(block, layout);
  }
}

function headingLines({ level, spans }: Extract<Block, { kind: 'heading' }>, layout: Layout): TerminalText[] {
  const text = wrap(spans, layout.width, escaped);
  const rule = level > 2 ? [] : ['─'.repeat(Math.max(...text.map((line) => widthOf(String(line)))))];
  return [...text, ...rule].map(layout.heading);
}

function wrapped(spans: readonly Span[], width: number, { show, marked }: Layout): TerminalText[] {
  return wrap(marked(spans), width, show);
}

/** Items are close together, except behind one of several paragraphs. */
function listLines(items: readonly ListItem[], layout: Layout): TerminalText[] {
  return items.flatMap((item, index) => {
    const isApart = (items[index - 1]?.blocks.length ?? 0) > 1;
    return [...(isApart ? [EMPTY] : []), ...itemLines(item, layout)];
  });
}

function itemLines({ mark, blocks }: ListItem, layout: Layout): TerminalText[] {
  const indent = ' '.repeat(widthOf(mark) + 1);
  const [first = EMPTY, ...rest] = renderBlocks(blocks, narrower(layout, indent.length));
  return [say`${mark} ${first}`, ...indented(rest, indent)];
}

function indented(lines: readonly Shown[], indent: string): TerminalText[] {
  return lines.map((line) => say`${indent}${line}`);
}

function narrower(layout: Layout, columns: number): Layout {
  return { ...layout, width: Math.max(NARROWEST, layout.width - columns) };
}

type Table = Extract<Block, { kind: 'table' }>;

function tableLines(table: Table, layout: Layout): TerminalText[] {
  const { headings, rows } = table;
  const columns = headings.map((heading, index) =>
    [heading, ...rows.map((row) => row[index] ?? [])].map(layout.marked),
  );
  const needs = columns.map((cells) => ({
    least: Math.max(...cells.map(longestWord)),
    most: Math.max(...cells.map((cell) => widthOf(cell.map(({ text }) => text).join('')))),
  }));
  const widths = shareWidth(needs, layout.width - GAP.length * (headings.length - 1));
  if (widths === null) return stackedLines(table, layout);
  const line = (cells: readonly (readonly Span[])[], show: Show): TerminalText[] => {
    const wrappedCells = cells.map((cell, index) => cellLines(layout.marked(cell), widths[index] ?? 0, show));
    const height = Math.max(...wrappedCells.map((cell) => cell.length));
    return Array.from({ length: height }, (_, at) =>
      joined(
        wrappedCells.map((cell, index) => cell[at] ?? ' '.repeat(widths[index] ?? 0)),
        GAP,
      ),
    );
  };
  return [
    ...line(headings, (text) => layout.heading(text)),
    escaped(widths.map((width) => '─'.repeat(width)).join(GAP)),
    ...rows.flatMap((row) => line(row, layout.show)),
  ];
}

/** The lines of a cell, each filled up to its width; what emphasises text takes no columns. */
function cellLines(spans: readonly Span[], width: number, show: Show): TerminalText[] {
  const bare = wrap(spans, width, escaped);
  return wrap(spans, width, show).map(
    (text, at) => say`${text}${' '.repeat(Math.max(0, width - widthOf(String(bare[at] ?? ''))))}`,
  );
}

/** A table that is too wide: a paragraph a row, its first cell on top, the others by their headings. */
function stackedLines({ headings, rows }: Table, layout: Layout): TerminalText[] {
  const within = narrower(layout, GAP.length);
  return rows.flatMap((row, index) => {
    const [first = [], ...others] = row;
    const fields = others.flatMap((cell, at) => {
      const name = headings[at + 1] ?? [];
      const spans: readonly Span[] = [...name, { text: ': ', style: 'plain' }, ...cell];
      return wrapped(spans, within.width, within);
    });
    const top = wrapped(first, layout.width, { ...layout, show: layout.heading });
    return [...(index === 0 ? [] : [EMPTY]), ...top, ...indented(fields, GAP)];
  });
}

/** The widths that a column can do with. */
interface ColumnNeed {
  /** Its longest word: narrower, and words are broken. */
  readonly least: number;
  /** Its longest cell: wider, and room is wasted. */
  readonly most: number;
}

/**
 * Shares the columns of a terminal among those of a table: everyone gets what its longest word needs, and what is left goes
 * to those that have more to say, in proportion (CSS 2.2, 17.5.2.2).
 * @returns null when not even the longest words have room
 */
export function shareWidth(needs: readonly ColumnNeed[], width: number): number[] | null {
  const least = needs.reduce((sum, need) => sum + need.least, 0);
  const most = needs.reduce((sum, need) => sum + need.most, 0);
  if (least > width) return null;
  if (most <= width) return needs.map((need) => need.most);
  const share = (width - least) / (most - least);
  return needs.map((need) => need.least + Math.floor((need.most - need.least) * share));
}
