import { parseInline, type Span } from './inline.ts';

/** A part of a text: what GitHub Flavored Markdown knows, as far as a manual of plain sentences takes it. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly spans: readonly Span[] }
  | { readonly kind: 'paragraph'; readonly spans: readonly Span[] }
  | { readonly kind: 'code'; readonly lines: readonly string[] }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'list'; readonly items: readonly ListItem[] }
  | {
      readonly kind: 'table';
      readonly headings: readonly (readonly Span[])[];
      readonly rows: readonly (readonly (readonly Span[])[])[];
    };

/** An item of a list with the mark before it: `•` or its number. */
export interface ListItem {
  readonly mark: string;
  readonly blocks: readonly Block[];
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+)(?=\S)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** Lines that are being read, one block after the other. */
interface Reader {
  readonly lines: readonly string[];
  position: number;
}

/** Reads the blocks of a text. Comments in it are left out. */
export function parseMarkdown(text: string): Block[] {
  return parseLines(text.replaceAll(/<!--.*?-->\n?/gs, '').split('\n'));
}

function parseLines(lines: readonly string[]): Block[] {
  const reader: Reader = { lines, position: 0 };
  const blocks: Block[] = [];
  while (reader.position < lines.length) {
    if (here(reader).trim() === '') reader.position += 1;
    else blocks.push(parseBlock(reader));
  }
  return blocks;
}

function here(reader: Reader): string {
  return reader.lines[reader.position] ?? '';
}

function parseBlock(reader: Reader): Block {
  const line = here(reader);
  const [, signs, title] = HEADING.exec(line) ?? [];
  if (signs !== undefined) {
    reader.position += 1;
    return { kind: 'heading', level: signs.length, spans: parseInline(title ?? '') };
  }
  if (FENCE.test(line)) return parseFence(reader);
  if (ITEM.test(line)) return parseList(reader);
  if (QUOTE.test(line)) return parseQuote(reader);
  if (line.includes('|') && TABLE_RULE.test(reader.lines[reader.position + 1] ?? ''))
    return parseTable(reader);
  return parseParagraph(reader);
}

function parseFence(reader: Reader): Block {
  const [, fence = ''] = FENCE.exec(here(reader)) ?? [];
  const lines: string[] = [];
  for (reader.position += 1; reader.position < reader.lines.length; reader.position += 1) {
    if (here(reader).trim().startsWith(fence)) break;
    lines.push(here(reader));
  }
  reader.position += 1;
  return { kind: 'code', lines };
}

function parseQuote(reader: Reader): Block {
  const lines: string[] = [];
  for (; QUOTE.test(here(reader)); reader.position += 1) lines.push(here(reader).replace(QUOTE, ''));
  return { kind: 'quote', blocks: parseLines(lines) };
}

function parseList(reader: Reader): Block {
  const items: ListItem[] = [];
  const isNumbered = isNumber(here(reader));
  while (ITEM.test(here(reader)) && isNumber(here(reader)) === isNumbered) {
    const [mark = '', , sign = ''] = ITEM.exec(here(reader)) ?? [];
    const blocks = parseLines(itemLines(reader, mark.length));
    items.push({ mark: isNumbered ? sign : '•', blocks });
    while (here(reader).trim() === '' && ITEM.test(reader.lines[reader.position + 1] ?? ''))
      reader.position += 1;
  }
  return { kind: 'list', items };
}

function isNumber(line: string): boolean {
  return /^ *\d/.test(line);
}

/** The lines of an item, moved to the left margin: those that are indented, and those that just go on with its sentence. */
function itemLines(reader: Reader, indent: number): string[] {
  const lines = [here(reader).slice(indent)];
  for (reader.position += 1; reader.position < reader.lines.length; reader.position += 1) {
    const line = here(reader);
    const isIndented = line.slice(0, indent).trim() === '';
    const isBlank = line.trim() === '';
    const next = reader.lines[reader.position + 1] ?? '';
    if (isBlank && (next.trim() === '' || next.slice(0, indent).trim() !== '')) break;
    if (!isBlank && !isIndented && (ITEM.test(line) || HEADING.test(line) || FENCE.test(line))) break;
    lines.push(isIndented ? line.slice(indent) : line);
  }
  return lines;
}

function parseTable(reader: Reader): Block {
  const headings = cellsOf(here(reader));
  const rows: Span[][][] = [];
  for (reader.position += 2; here(reader).includes('|'); reader.position += 1)
    rows.push(cellsOf(here(reader)));
  return { kind: 'table', headings, rows };
}

function cellsOf(line: string): Span[][] {
  return line
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
    .split(/(?<!\\)\|/)
    .map((cell) => parseInline(cell.trim().replaceAll('\\|', '|')));
}

function parseParagraph(reader: Reader): Block {
  const lines: string[] = [];
  for (; reader.position < reader.lines.length; reader.position += 1) {
    const line = here(reader);
    const isOther = HEADING.test(line) || FENCE.test(line) || ITEM.test(line) || QUOTE.test(line);
    if (line.trim() === '' || (lines.length > 0 && isOther)) break;
    lines.push(line.trim());
  }
  return { kind: 'paragraph', spans: parseInline(lines.join(' ')) };
}
