import { eventFailure } from '../../mirror/pass/events.ts';
import type { EventSink } from '../../app/events.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type LogLevel, standardError, standardOutput } from '../../lib/process/streams.ts';
import { joinLines, say, type TerminalText } from '../../lib/text/terminal-text.ts';

/** Most bytes of lines that wait for a slow reader: some thousand lines. This bounds the memory. */
const MAX_WAITING_BYTES = 1024 * 1024;

/** The output of the log. */
export type LogOutput = ReturnType<typeof createLogOutput>;

/**
 * Writes the log to standard output. A full disk or a slow reader must not stop the mirror: lines are dropped and
 * counted until one can be written again. Standard error and the listeners for events get one message about it.
 */
export function createLogOutput(emit: EventSink, stream = standardOutput) {
  let failure: MirrorError | null = null;
  let droppedLines = 0;
  /** Emits again that lines are dropped, if they are: for listeners that start after the log. */
  const report = (): void => {
    if (failure !== null) emit({ name: 'log.failed', ...eventFailure(failure) });
  };
  const drop = (message: string, cause?: Error): void => {
    droppedLines += 1;
    if (failure !== null) return;
    failure = new MirrorError('log.failed', message, { cause });
    standardError.write(say`workbook-mirror: ${failure.message}\n`);
    report();
  };
  const noteWritten = (): void => {
    // A reader that reads a line now and then is still too slow.
    if (failure === null || stream.waitingBytes() > 0) return;
    failure = null;
    const dropped = droppedLines;
    droppedLines = 0;
    emit({ name: 'log.resumed', droppedLines: dropped });
  };
  /** Takes a line with its line feed. */
  const write = (line: TerminalText, level: LogLevel): void => {
    if (stream.waitingBytes() > MAX_WAITING_BYTES) {
      drop('The reader of the log is too slow: lines are dropped until it has caught up.');
      return;
    }
    // The previous line may have been cut in the middle.
    stream.write(failure === null ? line : joinLines([say``, line]), level, (error) => {
      if (error === null || error === undefined) noteWritten();
      else drop(`The log cannot be written, and lines are dropped until it can: ${error.message}.`, error);
    });
  };
  return { write, report };
}
