import { fstatSync } from 'node:fs';
import { styleText } from 'node:util';

import { EXIT_CODES } from '../errors/errors.ts';
import { say, type TerminalText, written } from '../text/terminal-text.ts';

/** The levels of the log, from the most to the least severe, with the priorities of syslog(3), as the journal knows them. */
const PRIORITIES = { fatal: 2, error: 3, warn: 4, info: 6, debug: 7, trace: 7 } as const;

/** A level of the log. */
export type LogLevel = keyof typeof PRIORITIES;

/** Puts the priority of a level in front of every line, as the journal expects it (sd-daemon(3)). */
export function withPriority(lines: TerminalText, level: LogLevel): TerminalText {
  return lines.prefixed(say`<${PRIORITIES[level]}>`);
}

/**
 * Whether a file descriptor is the journal's own stream: systemd puts its device and inode into JOURNAL_STREAM
 * (systemd.exec(5)), which a process inherits even if its output goes elsewhere.
 */
export function isJournal(env: NodeJS.ProcessEnv, descriptor: number): boolean {
  const { JOURNAL_STREAM: stream } = env;
  if (stream === undefined) return false;
  try {
    const { dev, ino } = fstatSync(descriptor, { bigint: true });
    return stream === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** One of the two streams that people and programs read. All that this program writes to them goes through here. */
export type OutputStream = ReturnType<typeof streamOf>;

/** The state of standard output at the start of a command. */
const FRESH_OUTPUT = {
  /** Whether anything was written to it. */
  isBegun: false,
  /** Whether a reader that goes away has missed requested output. */
  isOneWhole: false,
  /** The exit code of a command whose output cannot be written; null for a program that continues. */
  unwrittenExitCode: EXIT_CODES.incomplete as number | null,
};

let output = { ...FRESH_OUTPUT };

/**
 * Makes a command end with another code if its output cannot be written: for some, 1 is an answer. With null it continues, and the
 * writer receives each failure: a daemon works on without a reader of its log.
 */
export function endUnwrittenWith(exitCode: number | null): void {
  output.unwrittenExitCode = exitCode;
}

/** Whether anything was written to standard output since {@link forgetOutput}. */
export function hasOutput(): boolean {
  return output.isBegun;
}

/** Resets this, for another command line in the same process. */
export function forgetOutput(): void {
  output = { ...FRESH_OUTPUT };
}

function streamOf(name: 'stdout' | 'stderr') {
  return {
    /** Writes a text unchanged; with a level, its priority precedes every line if the stream is the journal. */
    write: (
      text: TerminalText,
      level?: LogLevel,
      onEnd?: (error: Error | null | undefined) => void,
    ): void => {
      const stream = process[name];
      if (name === 'stdout') output.isBegun = true;
      const isMarked = level !== undefined && isJournal(process.env, stream.fd);
      stream.write(written(isMarked ? withPriority(text, level) : text), onEnd);
    },
    /** How much of the output is still buffered, in bytes. */
    waitingBytes: (): number => process[name].writableLength,
    isTerminal: (): boolean => process[name].isTTY,
    columns: (): number => process[name].columns,
    /** Whether text may be emphasised there, as Node decides it by NO_COLOR, FORCE_COLOR, TERM and the terminal. */
    mayColor: (): boolean => styleText('bold', ' ', { stream: process[name] }) !== ' ',
    /** Whether a line can be overwritten there: on a terminal that can erase one, which `TERM=dumb` cannot (terminfo(5)). */
    mayRedraw: (): boolean => process[name].isTTY && process.env['TERM'] !== 'dumb',
  };
}

/** Data, and the log of `run`. */
export const standardOutput = streamOf('stdout');

/** Messages for people beside the data, and the log of `serve`. */
export const standardError = streamOf('stderr');

/**
 * Writes bytes unchanged to standard output, and waits until they are out: requested data, and nothing else. If
 * that fails the process ends, as described at {@link endWithOutput}.
 */
export function writeBytes(bytes: Uint8Array): Promise<void> {
  output.isBegun = true;
  output.isOneWhole = true;
  return new Promise((resolve) => {
    process.stdout.write(bytes, (error) => {
      if (error === null || error === undefined) resolve();
    });
  });
}

/**
 * Ends in order if the reader of the output is gone, as with `| head -1`: a command that runs on is asked to stop, any other ends with
 * its exit code, and with 1 if half of a file is useless. Output that cannot be written for another reason, for example a full disk, is
 * reported as an error, unless the program continues ({@link endUnwrittenWith}).
 */
export function endWithOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (output.unwrittenExitCode === null) return;
    if (error.code !== 'EPIPE') {
      standardError.write(say`workbook-mirror: cannot write to standard output: ${error.message}\n`);
      process.exit(output.unwrittenExitCode);
    }
    if (output.isOneWhole) process.exit(EXIT_CODES.incomplete);
    if (process.listenerCount('SIGTERM') === 0) process.exit();
    process.kill(process.pid, 'SIGTERM');
  });
  process.stderr.on('error', () => {});
}
