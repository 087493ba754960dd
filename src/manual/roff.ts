import type { Block, Span, SpanStyle } from './markdown.ts';

/** The title of a manual page: `workbook-mirror(1)`. */
export interface ManualPageTitle {
  readonly name: string;
  readonly version: string;
  /** The program in one line. */
  readonly summary: string;
}

const FONTS: Readonly<Record<SpanStyle, string | null>> = {
  plain: null,
  strong: 'B',
  emphasis: 'I',
  code: 'B',
};

/** Renders a text as the source of a manual page of section 1 (man(7), groff_man(7)). */
export function renderManualPage(
  { name, version, summary }: ManualPageTitle,
  blocks: readonly Block[],
): string {
  const lines = [
    `.TH ${name.toUpperCase()} 1 "" "${name} ${version}"`,
    // No words are broken, as names could not be told from what is broken; and lines need not all end in one column.
    '.nh',
    '.ad l',
    '.SH NAME',
    `${escaped(name)} \\- ${escaped(summary)}`,
    ...blocks.flatMap(linesOf),
  ];
  return `${lines.filter(isNeeded).join('\n')}\n`;
}

/** A heading begins a paragraph by itself. */
function isNeeded(line: string, index: number, lines: readonly string[]): boolean {
  return line !== '.PP' || !/^\.S[HS] /.test(lines[index - 1] ?? '');
}

function linesOf(block: Block): string[] {
  switch (block.kind) {
    case 'heading': {
      const text = block.spans.map((span) => escaped(span.text)).join('');
      return [
        `.${block.level <= 2 ? 'SH' : 'SS'} "${(block.level <= 2 ? text.toUpperCase() : text).replaceAll('"', '\\(dq')}"`,
      ];
    }
    case 'paragraph':
      return ['.PP', lineOf(block.spans)];
    case 'code':
      return ['.PP', '.RS 4', '.nf', ...block.lines.map((line) => safe(escaped(line))), '.fi', '.RE'];
    case 'quote':
      return ['.RS 4', ...block.blocks.flatMap(linesOf), '.RE'];
    case 'list':
      return block.items.flatMap(({ mark, blocks }) => itemLines(escaped(mark), blocks));
    case 'table':
      return block.rows.flatMap((row) => rowLines(block.headings, row));
  }
}

/** An item: its first paragraph beside its mark, whatever follows below, indented. */
function itemLines(mark: string, blocks: readonly Block[]): string[] {
  const [first, ...rest] = blocks;
  const head = first?.kind === 'paragraph' ? [lineOf(first.spans)] : [];
  const others = first?.kind === 'paragraph' ? rest : blocks;
  return [
    `.IP "${mark}" 4`,
    ...head,
    ...(others.length === 0 ? [] : ['.RS 4', ...others.flatMap(linesOf), '.RE']),
  ];
}

/** A row of a table: its first cell above, the others below it, by their headings where there are several. */
function rowLines(headings: readonly (readonly Span[])[], row: readonly (readonly Span[])[]): string[] {
  const [first = [], ...others] = row;
  const fields = others.map((cell, index) => {
    const heading =
      others.length > 1 ? [...(headings[index + 1] ?? []), { text: ': ', style: 'plain' } as const] : [];
    return lineOf([...heading, ...cell]);
  });
  return ['.TP', lineOf(first) || '\\&', fields.filter((field) => field !== '').join('\n.br\n') || '\\&'];
}

function lineOf(spans: readonly Span[]): string {
  const text = spans
    .map(({ text, style }) => {
      const font = FONTS[style];
      const shown = escaped(breakable(text));
      return font === null ? shown : `\\f${font}${shown}\\fR`;
    })
    .join('');
  return safe(text);
}

/** A longer word may be broken behind its signs: not every line has room for it. */
const LONGEST_WHOLE = 40;

function breakable(text: string): string {
  return text.replaceAll(/\S+/g, (word) =>
    word.length <= LONGEST_WHOLE ? word : word.replaceAll(/[/:=,](?=.)/g, '$&\u200b'),
  );
}

/** A line that begins like a request is none with this in front. */
function safe(line: string): string {
  return /^[.']/.test(line) ? `\\&${line}` : line;
}

const SIGNS: Readonly<Record<string, string>> = {
  '\\': '\\e',
  // These would be shown as typographic signs, which nobody can type or copy.
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
  // Where a word may be broken without a hyphen.
  '\u200b': '\\:',
};

function escaped(text: string): string {
  return text.replaceAll(/[\\\-'`^~]|[^\x20-\x7e]/gu, (sign) => SIGNS[sign] ?? unicodeSign(sign));
}

function unicodeSign(sign: string): string {
  return `\\[u${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`;
}
