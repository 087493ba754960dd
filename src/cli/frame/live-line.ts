import type { LogLevel } from '../../lib/process/streams.ts';
import { ERASE_LINE, escaped, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import type { Loudness } from './loudness.ts';

/** Where a line is shown that says how far something is. */
export interface LiveLineOptions {
  readonly write: (text: TerminalText, level?: LogLevel) => void;
  /** Whether a line can be overwritten: true on a terminal. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  /** A quiet one shows nothing. */
  readonly loudness: Loudness;
  /** Milliseconds on a clock that only goes forward. */
  readonly now: () => number;
}

/** A line at the bottom that says how far something is and, above it, lines that stay. */
export interface LiveLine {
  /** Shows how far it is, where it is time for that. */
  readonly show: (text: () => string) => void;
  /** Writes a line that stays. */
  readonly line: (text: string, level?: LogLevel) => void;
  /** Takes the line at the bottom away. */
  readonly clear: () => void;
}

/** Shortest time between two looks of the line at the bottom, in milliseconds. */
const REDRAW_MS = 100;

/** Where nothing can be overwritten, it is a line that stays, so often, in milliseconds. */
const TOLD_EVERY_MS = 30_000;

/** Makes such a line. */
export function createLiveLine({ write, isTerminal, columns, loudness, now }: LiveLineOptions): LiveLine {
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
