import { stripVTControlCharacters, styleText } from 'node:util';

import { printable, UNFIT_FOR_TERMINAL } from './humanize.ts';

/** A part of a text for a terminal: one that is fit already, or any other, which is escaped. */
export type Shown = TerminalText | string | number;

/** How text can be emphasised. */
export type Emphasis = Extract<
  Parameters<typeof styleText>[0],
  'bold' | 'red' | 'green' | 'yellow' | 'blue' | 'cyan'
>;

let make: (text: string) => TerminalText;

/**
 * Text that a terminal shows as text. Nothing of what somebody else wrote is in it but in the form of {@link printable}; line
 * feeds and control sequences are those that stand in the source of this program. Only what this file exports makes it, and what
 * writes to a terminal takes nothing else. A class, as a type alone could be given to any string.
 */
export class TerminalText {
  readonly #text: string;

  private constructor(text: string) {
    this.#text = text;
  }

  static {
    make = (text) => new TerminalText(text);
  }

  /** As much of its beginning as fits into a width, without emphasis: half a control sequence would take in what follows. */
  cut(width: number): TerminalText {
    const start = stripVTControlCharacters(this.#text).slice(0, Math.max(0, width));
    return make(start.replace(/[\uD800-\uDBFF]$/, ''));
  }

  /** With something in front of every line that is not empty. */
  prefixed(prefix: Shown): TerminalText {
    return make(this.#text.replaceAll(/(?<![^\n])(?=[^\n])/g, () => raw(prefix)));
  }

  /** The text as it is written: a string again, which is escaped like any other where it is made part of another text. */
  toString(): string {
    return this.#text;
  }
}

/** The text as it is written. @throws TypeError for what was only said to be such a text */
export function written(text: TerminalText): string {
  return TerminalText.prototype.toString.call(text);
}

function raw(part: Shown): string {
  return part instanceof TerminalText ? written(part) : printable(String(part));
}

/** A text of anybody's, on one line: whatever in it is not shown as itself becomes visible, line feeds too. */
export function escaped(text: string): TerminalText {
  return make(printable(text));
}

/**
 * The tag of a template: its literal parts are taken as they stand in the source, with their line feeds and control sequences, and
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

/** A text whose line feeds are this program's own, such as its help; all else in it is escaped. */
export function escapedLines(text: string): TerminalText {
  return joinLines(text.split('\n'));
}

/** As of {@link printable}, in many lines. */
const UNUSUAL_IN_LINES = /[^\n -~]/;

/** A text in JSON: its value stays, and what a terminal would not show as text stands there as JSON escapes it (RFC 8259, section 7). */
export function escapedJson(json: string): TerminalText {
  if (!UNUSUAL_IN_LINES.test(json)) return make(json);
  const lines = json.split('\n').map((line) => line.replaceAll(UNFIT_FOR_TERMINAL, jsonEscape));
  return make(lines.join('\n'));
}

function jsonEscape(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** Emphasises text, whatever it is shown on. */
export function emphasised(text: Shown, how: Emphasis): TerminalText {
  return make(styleText(how, raw(text), { validateStream: false }));
}

/** Erases the line that a terminal is at, and goes on at its start (ECMA-48, EL). */
export const ERASE_LINE = say`\r\u001b[K`;
