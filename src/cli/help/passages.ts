/** A row, an item or a paragraph of the manual. */
export interface Passage {
  /** The name of its chapter. */
  readonly chapter: string;
  /** Its subject: the first cell of a row; empty for other passages. */
  readonly subject: string;
  readonly text: string;
}

/** The passages of a chapter in Markdown. Rows of tables get the headings of their columns. Code is left out. */
export function passagesOf(chapter: string, markdown: string): Passage[] {
  const blocks = markdown
    .replaceAll(/^ *```[^]*?^ *```$/gm, '')
    .replaceAll(/<!--.*?-->/gs, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-|]|\d+\.) ?)/)
    .map((block) => block.trim());
  let headings: readonly string[] = [];
  return blocks.flatMap((block, at) => {
    if (block === '' || /^(?:#|<|\|[ -]*-)/.test(block)) return [];
    if (!block.startsWith('|'))
      return [{ chapter, subject: '', text: plain(block.replace(/^(?:-|\d+\.) /, '')) }];
    const cells = block
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (/^\|[ -]*-/.test(blocks[at + 1] ?? '')) {
      headings = cells;
      return [];
    }
    const [subject = '', ...others] = cells.map(plain);
    const told = others.flatMap((cell, index) =>
      cell === '' ? [] : `${plain(headings[index + 1] ?? '')}: ${cell}`,
    );
    return [{ chapter, subject, text: `${subject}\n  ${told.join('\n  ')}` }];
  });
}

function plain(markdown: string): string {
  return markdown
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`]|\*\*/g, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll('\\|', '|');
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
export function explain(passages: readonly Passage[], asked: string): string[] {
  const word = asked.toLowerCase();
  const has = (text: string, part: string): boolean =>
    new RegExp(`(?<![\\w.-])${escaped(part)}(?![\\w-]|\\.\\w)`, 'i').test(text);
  const about = passages.filter(({ subject }) => has(subject, word));
  const parts = word.split(/\s+/).filter((part) => part !== '');
  const found =
    about.length > 0 ? about : passages.filter(({ text }) => parts.every((part) => has(text, part)));
  const lines = found.flatMap(({ chapter, text }) => text.split('\n').concat(`  (help ${chapter})`));
  return lines.slice(0, MOST_LINES);
}
