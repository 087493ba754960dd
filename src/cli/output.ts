import { styleText } from 'node:util';

import { EVENT_LEVELS, type EventSink } from '../model/events.ts';
import { isTold } from '../model/loudness.ts';
import { mayColor } from '../model/terminal.ts';
import { isJournal, type LogLevel, withPriority } from '../observe/journal.ts';
import { describeEvent } from '../observe/messages.ts';
import { loudness } from './loudness.ts';

/** Prints data: standard output holds nothing else. */
export function printData(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Prints a value as JSON. */
export function printJson(value: unknown): void {
  printData(JSON.stringify(value, null, 2));
}

/** Tells a person something, on standard error. */
export function tell(text: string, level: LogLevel = 'info'): void {
  writeError(`${text}\n`, level);
}

/** Writes to standard error; where that is the journal, every line begins with its priority. */
export function writeError(text: string, level: LogLevel): void {
  const { stderr } = process;
  stderr.write(isJournal(process.env, stderr.fd) ? withPriority(text, level) : text);
}

/** Tells a person of an event, if it is loud enough for the command line. */
export const tellEvent: EventSink = (event) => {
  if (isTold(event, loudness())) tell(`! ${describeEvent(event)}`, EVENT_LEVELS[event.name]);
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

/** Emphasises text where the stream that it goes to shows it ({@link mayColor}). */
export function bold(text: string, stream: NodeJS.WriteStream = process.stderr): string {
  return mayColor(process.env, stream.isTTY) ? styleText('bold', text, { validateStream: false }) : text;
}
