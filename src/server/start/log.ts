import type { Settings } from '../../config/schema.ts';
import { escapedJson, joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { LogLevel } from '../../lib/process/streams.ts';
import { standardError } from '../../lib/process/streams.ts';

/** The levels from the one of least weight to the loudest. */
const WEIGHTS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

/** Mark lines for a person. */
const MARKS: Readonly<Partial<Record<LogLevel, string>>> = { warn: '! ', error: '! ', fatal: '! ' };

/** How the log of a service is written. */
type ServeLogSettings = Settings['log'];

let settings: ServeLogSettings = { level: 'info', format: 'auto' };

/** Has the log of this process's service be written as the settings want it. */
export function openServeLog(log: ServeLogSettings): void {
  settings = log;
}

/** Whether lines of a level are written. */
export function isLogged(level: LogLevel, { level: least }: ServeLogSettings = settings): boolean {
  return WEIGHTS.indexOf(level) >= WEIGHTS.indexOf(least);
}

/**
 * A line of the log, with its line feed: the time in UTC, a mark for what is wrong, and the text. As JSON it has the fields of
 * the daemon's log.
 * @param text on one line; it may hold what others wrote
 * @param block lines that stand below it
 */
export function formatLine(
  format: ServeLogSettings['format'],
  level: LogLevel,
  text: string,
  at: Date,
  block: TerminalText | null = null,
): TerminalText {
  const time = at.toISOString();
  const lines = joinLines(block === null ? [text] : [text, block]);
  if (format === 'json') {
    return say`${escapedJson(JSON.stringify({ level, time, pid: process.pid, msg: String(lines) }))}\n`;
  }
  return say`${time} ${MARKS[level] ?? ''}${lines}\n`;
}

/** Writes a line to the log of the service, on standard error, if it is loud enough. @param text may hold what others wrote */
export function log(text: string, level: LogLevel = 'info'): void {
  if (isLogged(level)) standardError.write(formatLine(settings.format, level, text, new Date()), level);
}

/** Writes a message that is needed at every log level. @param block lines that stand below it */
export function logAlways(text: string, block: TerminalText): void {
  standardError.write(formatLine(settings.format, 'info', text, new Date(), block), 'info');
}
