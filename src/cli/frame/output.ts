import type { Command } from 'commander';

import type { MirrorError } from '../../lib/errors/errors.ts';
import { EVENT_LEVELS, type EventSink } from '../../app/events.ts';
import {
  emphasised,
  escaped,
  escapedJson,
  joinLines,
  say,
  type Shown,
  type TerminalText,
  written,
} from '../../lib/text/terminal-text.ts';
import { printable } from '../../lib/text/humanize.ts';
import type { LogLevel } from '../../lib/process/streams.ts';
import type { LiveLineOptions } from './live-line.ts';
import { describeEvent } from '../../app/messages.ts';
import { isTold, loudness } from './loudness.ts';
import { type OutputStream, standardError, standardOutput } from '../../lib/process/streams.ts';

/** The result of a command, and its final output. */
export interface Outcome {
  /** Printed as JSON with `--json`. */
  readonly data?: unknown;
  /** Printed without `--json`. */
  readonly text?: () => TerminalText;
  /** Reported instead of both; for a command whose exit code for this error has another meaning. */
  readonly failure?: MirrorError;
  /** 0 unless given. One of EXIT_CODES, or that of a program which the command ran. */
  readonly exitCode?: number;
}

/** Prints the outcome of a command: data with `--json`, otherwise text. */
export function printOutcome(command: Command, { data, text }: Outcome): void {
  const { json }: { json?: true } = command.opts();
  if (json === true && data !== undefined) printJson(data);
  else if (json !== true && text !== undefined) printData(text());
}

/** Prints data to standard output, which gets nothing else. */
export function printData(text: TerminalText): void {
  standardOutput.write(written(text).endsWith('\n') ? text : say`${text}\n`);
}

/** Prints a value as JSON. */
export function printJson(value: unknown): void {
  printData(jsonText(value));
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
  if (isTold(event, loudness())) tell(say`! ${describeEvent(event)}`, EVENT_LEVELS[event.name]);
};

/** Shows the progress of a command on standard error. */
export function liveLineOptions(): LiveLineOptions {
  return {
    write: standardError.write,
    isTerminal: standardError.mayRedraw(),
    columns: standardError.columns,
    loudness: loudness(),
    now: () => performance.now(),
  };
}

/** The lines of a report, without the parts that are false or null. */
export function linesOf(...parts: readonly (string | false | null | readonly string[])[]): string[] {
  return parts.flatMap((part) => (part === false || part === null ? [] : part));
}

/**
 * Puts rows under their headings, in columns.
 * @param notes a line below each row; empty or missing for none
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  notes: readonly string[] = [],
): TerminalText {
  const [head = say``, ...lines] = inColumns([headings, ...rows]);
  const body = lines.flatMap((line, index) => {
    const note = notes[index] ?? '';
    return note === '' ? [line] : [line, say`  ${note}`];
  });
  return joinLines([head, ...body]);
}

/** Aligns cells in columns, each as wide as its widest cell. */
function inColumns(rows: readonly (readonly string[])[]): readonly TerminalText[] {
  const lines = rows.map((cells) => cells.map(printable));
  const widths: number[] = [];
  for (const cells of lines)
    for (const [column, cell] of cells.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  return lines.map((cells) =>
    escaped(
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    ),
  );
}

/** Emphasises text if the stream shows colours. */
export function bold(text: Shown, stream: OutputStream = standardError): TerminalText {
  return stream.mayColor() ? emphasised(text, 'bold') : say`${text}`;
}
