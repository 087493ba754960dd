import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';

import { EVENT_LEVELS, type EventSink } from '../model/events.ts';
import { describeEvent } from './messages.ts';
import { scrub } from './scrub.ts';

/** How the log is written. */
export interface LoggerOptions {
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';
  readonly format: 'json' | 'pretty';
  readonly colors: boolean;
  /** The secrets as they are now: none of them ever reaches the log. */
  readonly secrets: () => readonly string[];
  /** Takes a line with its line feed; written at once, so that a process that is killed has lost none. */
  readonly write: (line: string) => void;
}

/** Makes a log of events: the event's name in `event`, its fields beside it, a sentence in `msg`. */
export function createEventLog(options: LoggerOptions): EventSink {
  const pretty = prettyFactory({
    colorize: options.colors,
    ignore: 'pid,event',
    hideObject: true,
    translateTime: 'SYS:HH:MM:ss',
  });
  const log = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    {
      write: (line) => {
        const clean = scrub(line, options.secrets());
        options.write(options.format === 'pretty' ? pretty(clean) : clean);
      },
    },
  );
  return (event) => {
    const { name, ...fields } = event;
    log[EVENT_LEVELS[name]]({ event: name, ...fields }, describeEvent(event));
  };
}
