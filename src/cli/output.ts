import { EVENT_LEVELS, type EventSink } from '../model/events.ts';
import { isTold } from '../model/loudness.ts';
import {
  emphasised,
  escapedJson,
  escapedLines,
  say,
  type Shown,
  type TerminalText,
} from '../model/terminal-text.ts';
import type { LogLevel } from '../observe/journal.ts';
import { describeEvent } from '../observe/messages.ts';
import { loudness } from './loudness.ts';
import { type OutputStream, standardError, standardOutput } from './streams.ts';

/** Prints data: standard output holds nothing else. */
export function printData(text: TerminalText | string): void {
  standardOutput.write(
    String(text).endsWith('\n') ? text : say`${typeof text === 'string' ? escapedLines(text) : text}\n`,
  );
}

/** Prints a value as JSON. */
export function printJson(value: unknown): void {
  printData(escapedJson(JSON.stringify(value, null, 2)));
}

/** Tells a person something, on standard error. */
export function tell(text: TerminalText | string, level: LogLevel = 'info'): void {
  standardError.write(say`${typeof text === 'string' ? escapedLines(text) : text}\n`, level);
}

/** Tells a person of an event, if it is loud enough for the command line. */
export const tellEvent: EventSink = (event) => {
  if (isTold(event, loudness())) tell(say`! ${describeEvent(event)}`, EVENT_LEVELS[event.name]);
};

/** Puts rows under their headings, in columns. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), heading.length),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === cells.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(headings), ...rows.map(line)].join('\n');
}

/** Emphasises text where the stream that it goes to shows it. */
export function bold(text: Shown, stream: OutputStream = standardError): TerminalText {
  return stream.mayColor() ? emphasised(text, 'bold') : say`${text}`;
}
