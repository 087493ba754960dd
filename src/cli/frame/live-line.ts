import { type LogLevel, standardError } from '../../lib/process/streams.ts';
import { ERASE_LINE, escaped, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { type Loudness, loudness } from './output.ts';

/** The output and clock of a live line. */
export interface LiveLineOptions {
  readonly write: (text: TerminalText, level?: LogLevel) => void;
  /** Whether a line can be overwritten: true on a terminal. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  /** `quiet` shows nothing. */
  readonly loudness: Loudness;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
}

/** A line of progress at the bottom and, above it, lines that stay. */
export interface LiveLine {
  /** Shows the progress, at most every {@link REDRAW_MS}. */
  readonly show: (text: () => string) => void;
  /** Writes a line that stays. */
  readonly line: (text: string, level?: LogLevel) => void;
  /** Removes the line at the bottom. */
  readonly clear: () => void;
}

/** Shortest time between two changes of the live line, in milliseconds. */
const REDRAW_MS = 100;

/** Without a terminal, progress is a line that stays, this often, in milliseconds. */
const TOLD_EVERY_MS = 30_000;

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

/** Makes a live line; on standard error if nothing else is given. */
export function createLiveLine(options = liveLineOptions()): LiveLine {
  const { write, isTerminal, columns, loudness, now }: LiveLineOptions = options;
  let isDrawn = false;
  let shownAtMs = isTerminal ? Number.NEGATIVE_INFINITY : now();
  const clear = (): void => {
    if (isDrawn) write(ERASE_LINE);
    isDrawn = false;
  };
  const line = (text: string, level?: LogLevel): void => {
    write(say`${isDrawn ? ERASE_LINE : ''}${text}\n`, level);
    isDrawn = false;
  };
  return {
    line,
    clear,
    show: (text) => {
      if (loudness === 'quiet' || now() - shownAtMs < (isTerminal ? REDRAW_MS : TOLD_EVERY_MS)) return;
      shownAtMs = now();
      if (!isTerminal) return line(`· ${text()}`);
      write(say`${ERASE_LINE}${escaped(text()).cut(columns() - 1)}`);
      isDrawn = true;
    },
  };
}
