import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';

import { EVENT_LEVELS, type EventLevel, type EventSink } from '../model/events.ts';
import type { LogLevel } from './journal.ts';
import { describeEvent } from './messages.ts';
import { scrub } from '../model/scrub.ts';

/** How the log is written. */
export interface LoggerOptions {
  /** The least severe lines that are written. */
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly colors: boolean;
  /** The secrets as they are now: none of them ever reaches the log. */
  readonly secrets: () => readonly string[];
  /** Takes a line with its line feed; written at once, so that a process that is killed has lost none. */
  readonly write: (line: string, level: EventLevel) => void;
}

/** A log of events. */
export interface EventLog {
  /** Takes events, and writes those that are loud enough. */
  readonly sink: EventSink;
  readonly level: () => LogLevel;
  /** Has the lines from now on be written down to this level. */
  readonly setLevel: (level: LogLevel) => void;
}

/**
 * Makes a log of events: the event's name in `event`, its fields beside it, a sentence in `msg`. Times are UTC, in JSON lines
 * with milliseconds (RFC 3339).
 */
export function createEventLog(options: LoggerOptions): EventLog {
  const pretty = prettyFactory({
    colorize: options.colors,
    ignore: 'pid,event',
    hideObject: true,
    translateTime: "UTC:yyyy-mm-dd'T'HH:MM:ss'Z'",
  });
  let levelInHand: EventLevel = 'info';
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
        options.write(options.format === 'pretty' ? pretty(clean) : clean, levelInHand);
      },
    },
  );
  let level = options.level;
  return {
    sink: (event) => {
      const { name, ...fields } = event;
      levelInHand = EVENT_LEVELS[name];
      log[levelInHand]({ event: name, ...fields }, describeEvent(event));
    },
    level: () => level,
    setLevel: (wanted) => {
      level = wanted;
      log.level = wanted;
    },
  };
}
