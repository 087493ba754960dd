import { joined, type TerminalText } from '../lib/text/terminal-text.ts';
import type { Span, SpanStyle } from './markdown.ts';

/** How a run of text looks where it is shown. */
export type Show = (text: string, style: SpanStyle) => TerminalText;

/** How many columns a text takes: its characters; those of double width do not occur in this manual. */
export function widthOf(text: string): number {
  return Array.from(text).length;
}

/**
 * Breaks text into lines of at most `width` columns, at its spaces, and inside a word only where that alone is too long. At
 * least one line.
 */
export function wrap(spans: readonly Span[], width: number, show: Show): TerminalText[] {
  const lines: Span[][] = [[]];
  let used = 0;
  for (const word of wordsOf(spans)) {
    let rest = word;
    const size = sizeOf(word);
    if (used > 0 && used + 1 + size > width) {
      lines.push([]);
      used = 0;
    }
    while (sizeOf(rest) > width) {
      const [head, tail] = cut(rest, width);
      lines.splice(-1, 1, head, []);
      rest = tail;
    }
    const line = lines.at(-1) ?? [];
    if (used > 0) line.push({ text: ' ', style: spaceStyle(line, rest) });
    line.push(...rest);
    used += (used > 0 ? 1 : 0) + sizeOf(rest);
  }
  return lines.map((line) =>
    joined(
      merged(line).map(({ text, style }) => show(text, style)),
      '',
    ),
  );
}

/** The longest word: narrower than this a column cannot be without breaking words. */
export function longestWord(spans: readonly Span[]): number {
  return Math.max(0, ...wordsOf(spans).map(sizeOf));
}

function wordsOf(spans: readonly Span[]): Span[][] {
  const words: Span[][] = [];
  let isOpen = false;
  for (const { text, style } of spans) {
    for (const [index, part] of text.split(/\s+/).entries()) {
      if (index > 0) isOpen = false;
      if (part === '') continue;
      const word = isOpen ? words.at(-1) : undefined;
      if (word === undefined) words.push([{ text: part, style }]);
      else word.push({ text: part, style });
      isOpen = true;
    }
  }
  return words;
}

function sizeOf(pieces: readonly Span[]): number {
  return pieces.reduce((sum, { text }) => sum + widthOf(text), 0);
}

function cut(pieces: readonly Span[], width: number): [Span[], Span[]] {
  const head: Span[] = [];
  const tail: Span[] = [];
  let room = width;
  for (const { text, style } of pieces) {
    const characters = Array.from(text);
    const fits = characters.slice(0, room).join('');
    const more = characters.slice(room).join('');
    if (fits !== '') head.push({ text: fits, style });
    if (more !== '') tail.push({ text: more, style });
    room = Math.max(0, room - characters.length);
  }
  return [head, tail];
}

/** A space between two words of one style belongs to it, so that the style is not switched off and on again. */
function spaceStyle(line: readonly Span[], next: readonly Span[]): SpanStyle {
  const before = line.at(-1)?.style;
  return before !== undefined && before === next[0]?.style ? before : 'plain';
}

/** Neighbours of one style together. */
function merged(line: readonly Span[]): Span[] {
  const result: Span[] = [];
  for (const piece of line) {
    const last = result.at(-1);
    if (last?.style === piece.style) result[result.length - 1] = { ...last, text: last.text + piece.text };
    else result.push(piece);
  }
  return result;
}
