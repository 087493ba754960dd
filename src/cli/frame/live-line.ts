import { type LogLevel, standardError } from '../../lib/process/streams.ts';
import { ERASE_LINE, escaped, say } from '../../lib/text/terminal-text.ts';
import { loudness } from './output.ts';

/** Shortest time between two changes of the live line, in milliseconds. */
const REDRAW_MS = 100;

/** Without a terminal, progress is a line that stays, this often, in milliseconds. */
const TOLD_EVERY_MS = 30_000;

/** The output and clock of a live line on standard error. */
export function liveLineOptions() {
  return {
    write: standardError.write,
    /** Whether a line can be overwritten: true on a terminal. */
    isTerminal: standardError.mayRedraw(),
    columns: standardError.columns,
    /** `quiet` shows nothing. */
    loudness: loudness(),
    /** Milliseconds of a monotonic clock. */
    now: () => performance.now(),
  };
}

/** Makes a line of progress at the bottom and, above it, lines that stay. */
export function createLiveLine(options = liveLineOptions()) {
  const { write, isTerminal, columns, loudness, now } = options;
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
    /** Writes a line that stays. */
    line,
    /** Removes the line at the bottom. */
    clear,
    /** Shows the progress, at most every {@link REDRAW_MS}. */
    show: (text: () => string): void => {
      if (loudness === 'quiet' || now() - shownAtMs < (isTerminal ? REDRAW_MS : TOLD_EVERY_MS)) return;
      shownAtMs = now();
      if (!isTerminal) return line(`· ${text()}`);
      write(say`${ERASE_LINE}${escaped(text()).cut(columns() - 1)}`);
      isDrawn = true;
    },
  };
}
