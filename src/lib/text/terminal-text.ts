import { stripVTControlCharacters, styleText } from 'node:util';

import { printable, UNFIT_FOR_TERMINAL } from './humanize.ts';

/** A part of a text for a terminal: one that is safe already, or any other, which is escaped. */
export type Shown = TerminalText | string | number;

/** How text can be emphasised. */
export type Emphasis = Extract<
  Parameters<typeof styleText>[0],
  'bold' | 'red' | 'green' | 'yellow' | 'blue' | 'cyan'
>;

let make: (text: string) => TerminalText;

/**
 * Text that is safe for a terminal. Foreign text in it has the form of {@link printable}; all line
 * feeds and control sequences come from the source of this program. Only this file makes it, and
 * terminals get nothing else. A class, as any string could claim a mere type.
 */
export class TerminalText {
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
  }

  static {
    make = (text) => new TerminalText(text);
  }

  /** The longest beginning that fits into a width, without emphasis: half a control sequence would swallow the next characters. */
  cut(width: number): TerminalText {
    const start = stripVTControlCharacters(this.#text).slice(0, Math.max(0, width));
    return make(start.replace(/[\uD800-\uDBFF]$/, ''));
  }

  /** With something in front of every line that is not empty. */
  prefixed(prefix: Shown): TerminalText {
    return make(this.#text.replaceAll(/(?<![^\n])(?=[^\n])/g, () => raw(prefix)));
  }

  /** The text as it is written: a string again, which is escaped like any other if it becomes part of another text. */
  toString(): string {
    return this.#text;
  }
}

/** The text as it is written. @throws TypeError for anything that is not such a text */
export function written(text: TerminalText): string {
  return TerminalText.prototype.toString.call(text);
}

function raw(part: Shown): string {
  return part instanceof TerminalText ? written(part) : printable(String(part));
}

/** Foreign text, on one line: every character that is not shown as itself becomes visible, line feeds too. */
export function escaped(text: string): TerminalText {
  return make(printable(text));
}

/**
 * The tag of a template: its literal parts stay as they are in the source, with their line feeds and control sequences, and
 * everything else is escaped.
 */
export function say(literals: TemplateStringsArray, ...parts: readonly Shown[]): TerminalText {
  return make(literals.map((literal, at) => (at === 0 ? '' : raw(parts[at - 1] ?? '')) + literal).join(''));
}

/** Puts texts together, with something between them. */
export function joined(parts: readonly Shown[], separator: Shown): TerminalText {
  return make(parts.map(raw).join(raw(separator)));
}

/** Puts lines below each other; none ends the last. */
export function joinLines(lines: readonly Shown[]): TerminalText {
  return make(lines.map(raw).join('\n'));
}

/** A text with this program's own line feeds, for example its help; everything else in it is escaped. */
export function escapedLines(text: string): TerminalText {
  return joinLines(text.split('\n'));
}

/** As {@link printable}, in many lines. */
const UNUSUAL_IN_LINES = /[^\n -~]/;

/** A text in JSON: its value stays, and characters that a terminal would not show as text become JSON escapes (RFC 8259, section 7). */
export function escapedJson(json: string): TerminalText {
  if (!UNUSUAL_IN_LINES.test(json)) return make(json);
  return make(json.replaceAll(UNFIT_FOR_TERMINAL, (each) => (each === '\n' ? each : jsonEscape(each))));
}

function jsonEscape(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** Emphasises text, on every kind of terminal. */
export function emphasised(text: Shown, how: Emphasis): TerminalText {
  return make(styleText(how, raw(text), { validateStream: false }));
}

/** Erases the present line of a terminal, and continues at its start (ECMA-48, EL). */
export const ERASE_LINE = say`\r\u001b[K`;
