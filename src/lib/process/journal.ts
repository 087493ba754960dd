import { fstatSync } from 'node:fs';

import { say, type TerminalText } from '../text/terminal-text.ts';

/** A level of the log, from the loudest to the one of least weight. */
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace';

/** The priorities of syslog(3), as the journal knows them. */
const PRIORITIES: Readonly<Record<LogLevel, number>> = {
  fatal: 2,
  error: 3,
  warn: 4,
  info: 6,
  debug: 7,
  trace: 7,
};

/** Puts the priority of a level in front of every line, as the journal reads it off again (sd-daemon(3)). */
export function withPriority(lines: TerminalText, level: LogLevel): TerminalText {
  return lines.prefixed(say`<${PRIORITIES[level]}>`);
}

/**
 * Whether a file descriptor is the journal's own stream: systemd names device and inode of that in JOURNAL_STREAM
 * (systemd.exec(5)), which a process inherits also where its output goes elsewhere.
 */
export function isJournal(env: Readonly<Record<string, string | undefined>>, descriptor: number): boolean {
  const stream = env['JOURNAL_STREAM'];
  if (stream === undefined || stream === '') return false;
  try {
    const { dev, ino } = fstatSync(descriptor, { bigint: true });
    return stream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}
