import type { Command } from 'commander';

import { type EventSink, levelOf, type MirrorEvent } from '../../app/events.ts';
import { describeEvent } from '../../app/messages.ts';
import { EXIT_CODES, type MirrorError } from '../../lib/errors/errors.ts';
import {
  hasOutput,
  type LogLevel,
  type OutputStream,
  standardError,
  standardOutput,
} from '../../lib/process/streams.ts';
import { oneLine, printable } from '../../lib/text/humanize.ts';
import {
  emphasised,
  escaped,
  escapedJson,
  joinLines,
  say,
  type Shown,
  TerminalText,
  written,
} from '../../lib/text/terminal-text.ts';

/** The result of a command, and its final output. */
export interface Outcome {
  /** Printed as JSON with `--json`. */
  readonly data?: unknown;
  /** Printed without `--json`; nothing if it is null. */
  readonly text?: () => Shown | null;
  /** Reported instead of both; for a command whose exit code for this error has another meaning. */
  readonly failure?: MirrorError;
  /** 0 unless given. One of EXIT_CODES, or that of a program which the command ran. */
  readonly exitCode?: number;
}

/** Prints the outcome of a command: data with `--json`, otherwise text. */
export function printOutcome(command: Command, { data, text }: Outcome): void {
  const { json }: { json?: true } = command.opts();
  if (json !== true) {
    const shown = text?.() ?? null;
    if (shown !== null) printData(say`${shown}`);
  } else if (data !== undefined) printData(jsonText(data));
}

/** The outcome of a command that ends with 1 unless all is well. */
export function judged(isWell: boolean, data: unknown, text: () => Shown): Outcome {
  return { data, text, exitCode: isWell ? EXIT_CODES.ok : EXIT_CODES.incomplete };
}

/** Prints data to standard output, which gets nothing else. */
export function printData(text: TerminalText): void {
  standardOutput.write(written(text).endsWith('\n') ? text : say`${text}\n`);
}

/** A value as JSON with line breaks. */
export function jsonText(value: unknown): TerminalText {
  return escapedJson(JSON.stringify(value, null, 2));
}

/** Writes a message for a person to standard error. */
export function tell(text: TerminalText, level: LogLevel = 'info'): void {
  standardError.write(say`${text}\n`, level);
}

/** Writes an event to standard error, if the command line is to show it. */
export const tellEvent: EventSink = (event) => {
  if (isShown(event, loudness())) tell(say`! ${describeEvent(event)}`, levelOf(event));
};

/** Lines of a report, and lists of such lines. False and null are no lines. */
export type Lines = Shown | false | null | readonly Lines[];

/** Puts the lines of a report below each other. */
export function textOf(...lines: readonly Lines[]): TerminalText {
  const flat = (part: Lines): readonly Shown[] => {
    if (part === false || part === null) return [];
    return typeof part !== 'object' || part instanceof TerminalText ? [part] : part.flatMap(flat);
  };
  return joinLines(flat(lines));
}

/** Lines below their heading; false without lines. */
export function under(heading: string, lines: readonly Shown[]): Lines {
  return lines.length > 0 && [heading, lines.map((line) => say`  ${line}`)];
}

/**
 * Puts rows under their headings, in columns that are each as wide as the widest cell.
 * @param notes a line below each row; empty or missing for none
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  notes: readonly string[] = [],
): TerminalText {
  const lines = [headings, ...rows].map((cells) => cells.map(printable));
  const widths = headings.map((_, column) =>
    lines.reduce((most, cells) => Math.max(most, cells[column]?.length ?? 0), 0),
  );
  return joinLines(
    lines.flatMap((cells, index) => {
      const line = cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
      const note = notes[index - 1] ?? '';
      return note === '' ? escaped(line.trimEnd()) : [escaped(line.trimEnd()), say`  ${note}`];
    }),
  );
}

/** Emphasises text if the stream shows colours. */
export function bold(text: Shown, stream: OutputStream = standardError): TerminalText {
  return stream.mayColor() ? emphasised(text, 'bold') : say`${text}`;
}

/** The amount of output beside the result: only errors, notable events, or everything. */
export type Loudness = 'quiet' | 'normal' | 'verbose';

let asked: Loudness = 'normal';

/** The amount of output that the command line asked for. */
export function loudness(): Loudness {
  return asked;
}

/** Applies the flags of a command line, before its command runs. */
export function takeLoudness(command: Command): void {
  const { quiet, verbose }: { quiet?: true; verbose?: true } = command.opts();
  asked = quiet === true ? 'quiet' : verbose === true ? 'verbose' : 'normal';
}

/**
 * Whether a command shows an event. `--quiet` still shows the end of a pass with problems: the exit code must not be the only
 * trace.
 */
export function isShown(event: MirrorEvent, loudness: Loudness): boolean {
  if (loudness === 'verbose') return true;
  const level = levelOf(event);
  if (loudness === 'normal') return level !== 'debug';
  return event.name === 'pass.finished' ? event.failed > 0 || event.held > 0 : level === 'error';
}

/**
 * Reports the error of a command line: to a person on standard error and, with `--json`, to a program on standard output, which
 * always gets exactly one JSON document.
 */
export function tellFailure(error: MirrorError, argv: readonly string[]): void {
  tellError(error);
  const { code, message, hint = null } = error;
  // The command line may be invalid. Arguments after `--` are for another program.
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length;
  if (argv.slice(2, end).includes('--json') && !hasOutput())
    printData(jsonText({ error: { code, message, hint } }));
}

/** Reports an error to a person, with what to do about it. */
export function tellError(error: MirrorError): void {
  const { code, cause, hint } = error;
  const isDefect = code === 'internal.defect';
  const [first = '', ...more] = isDefect ? error.lines.map(oneLine) : error.lines;
  tell(
    joinLines([
      `workbook-mirror: ${first}`,
      ...more,
      ...(hint === undefined ? [] : [`  ${hint}`]),
      ...(isDefect && cause instanceof Error ? stackOf(cause) : []),
    ]),
    'error',
  );
}

/** An error and the calls that led to it. The message, which may come from outside, is kept on one line. */
function stackOf(error: Error): string[] {
  const { stack = '', message } = error;
  // A line of the message may look like a call.
  const calls = stack
    .replace(message, '')
    .split('\n')
    .filter((line) => /^ {4}at /.test(line));
  return [oneLine(String(error)), ...calls];
}
