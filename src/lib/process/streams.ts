import { EXIT_CODES } from '../errors/errors.ts';
import { joinLines, say, type TerminalText, written } from '../text/terminal-text.ts';
import { mayColor, mayRedraw } from '../text/terminal.ts';
import { isJournal, type LogLevel, withPriority } from './journal.ts';
import { isStopHeard } from './signals.ts';

/** One of the two streams that people and programs read. All that this program writes to them goes through here. */
export interface OutputStream {
  /** Writes a text as it is; with a level, every line of it begins with its priority where the stream is the journal. */
  readonly write: (text: TerminalText, level?: LogLevel) => void;
  readonly isTerminal: () => boolean;
  readonly columns: () => number;
  /** Whether text may be emphasised there ({@link mayColor}). */
  readonly mayColor: () => boolean;
  /** Whether a line can be written over there ({@link mayRedraw}). */
  readonly mayRedraw: () => boolean;
}

let isOutputBegun = false;

/** Whether anything was written to standard output since {@link forgetOutput}. */
export function hasOutput(): boolean {
  return isOutputBegun;
}

/** Begins anew, for another command line in the same process. */
export function forgetOutput(): void {
  isOutputBegun = false;
}

function streamOf(name: 'stdout' | 'stderr'): OutputStream {
  return {
    write: (text, level) => {
      const stream = process[name];
      if (name === 'stdout') isOutputBegun = true;
      const isMarked = level !== undefined && isJournal(process.env, stream.fd);
      stream.write(written(isMarked ? withPriority(text, level) : text));
    },
    isTerminal: () => process[name].isTTY,
    columns: () => process[name].columns,
    mayColor: () => mayColor(process.env, process[name].isTTY),
    mayRedraw: () => mayRedraw(process.env, process[name].isTTY),
  };
}

/** Data, and the log of `run`. */
export const standardOutput = streamOf('stdout');

/** What people are told beside the data, and the log of `serve`. */
export const standardError = streamOf('stderr');

/**
 * Takes it in order when nobody reads the output any longer, as `| head -1` does: what runs on and on is told to stop, the
 * rest ends. Output that cannot be written for another reason, such as a full disk, is an error that a person is told of.
 */
export function endWithOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') {
      standardError.write(say`workbook-mirror: cannot write to standard output: ${error.message}\n`);
      process.exit(EXIT_CODES.incomplete);
    }
    if (!isStopHeard('SIGTERM')) process.exit(EXIT_CODES.ok);
    process.kill(process.pid, 'SIGTERM');
  });
  process.stderr.on('error', () => {});
}

/**
 * Writes what is shown only once to standard output, and waits until it is out.
 * @throws what kept it from being written, such as a full disk, or a reader that is gone
 */
export function printSeen(text: TerminalText): Promise<void> {
  const { stdout } = process;
  isOutputBegun = true;
  // The other listeners end the process; the caller must first undo what it has done.
  const others = stdout.rawListeners('error');
  stdout.removeAllListeners('error');
  return new Promise<void>((resolve, reject) => {
    stdout.on('error', reject);
    stdout.write(written(joinLines([text, ''])), (error) => {
      if (error !== null && error !== undefined) return;
      stdout.removeAllListeners('error');
      for (const other of others) stdout.on('error', (error) => void Reflect.apply(other, stdout, [error]));
      resolve();
    });
  });
}
