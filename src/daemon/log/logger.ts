import { pino } from 'pino';

import type { SettingsFor } from '../../config/schema.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { EVENT_LEVELS, type EventLevel, type EventSink } from '../../app/events.ts';
import { utcTime } from '../../lib/text/humanize.ts';
import { scrub } from '../../lib/text/scrub.ts';
import {
  type Emphasis,
  emphasised,
  escaped,
  escapedJson,
  say,
  type TerminalText,
} from '../../lib/text/terminal-text.ts';
import type { LogLevel } from '../../lib/process/streams.ts';
import type { LogOutput } from './log-output.ts';
import { describeEvent } from '../../app/messages.ts';

/** How the log is written. */
export interface LoggerOptions {
  /** The least severe lines that are written. */
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly colors: boolean;
  /** The secrets as they are now: none of them ever reaches the log. */
  readonly secrets: () => readonly string[];
  /** Takes a line with its line feed; written at once, so that a process that is killed has lost none. */
  readonly write: (line: TerminalText, level: EventLevel) => void;
}

/** A log of events. */
export interface EventLog {
  /** Takes events, and writes those that are loud enough. */
  readonly sink: EventSink;
  /** Has the lines from now on be written down to this level. */
  readonly setLevel: (level: LogLevel) => void;
}

/**
 * Makes a log of events: the event's name in `event`, its fields beside it, a sentence in `msg`. Times are UTC, in JSON lines
 * with milliseconds (RFC 3339).
 */
export function createEventLog(options: LoggerOptions): EventLog {
  let levelInHand: EventLevel = 'info';
  const log = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    {
      write: (line) => options.write(escapedJson(scrub(line, options.secrets())), levelInHand),
    },
  );
  return {
    sink: (event) => {
      const { name, ...fields } = event;
      levelInHand = EVENT_LEVELS[name];
      const message = String(describeEvent(event));
      if (options.format === 'json') log[levelInHand]({ event: name, ...fields }, message);
      else if (log.isLevelEnabled(levelInHand)) {
        const clean = escaped(scrub(message, options.secrets()));
        options.write(prettyLine(Date.now(), levelInHand, clean, options.colors), levelInHand);
      }
    },
    setLevel: (level) => {
      log.level = level;
    },
  };
}

/** The colour of each level in a line for people. */
const COLORS: Readonly<Record<EventLevel, Emphasis>> = {
  error: 'red',
  warn: 'yellow',
  info: 'green',
  debug: 'blue',
};

function prettyLine(atMs: number, level: EventLevel, message: TerminalText, colors: boolean): TerminalText {
  const shown = (text: TerminalText, how: Emphasis): TerminalText => (colors ? emphasised(text, how) : text);
  const label = shown(escaped(level.toUpperCase()), COLORS[level]);
  return say`[${utcTime(atMs)}] ${label}: ${shown(message, 'cyan')}\n`;
}

/**
 * The log of `run`, as the settings want it; one that goes to the journal carries its priorities.
 * @param secrets gives what is to be masked
 */
export function logOf(
  settings: SettingsFor<never>,
  secrets: () => readonly string[],
  { write }: Pick<LogOutput, 'write'>,
): EventLog {
  const { level, format } = settings.log;
  return createEventLog({
    level,
    format: format === 'auto' ? (standardOutput.isTerminal() ? 'pretty' : 'json') : format,
    colors: standardOutput.mayColor(),
    secrets,
    write,
  });
}

/** The level of a log that runs: as the settings want it, or for a while down to every detail. */
interface LogLevelSwitch {
  /** Goes to `debug`, and back to the level of the settings. */
  readonly toggle: () => void;
  /** Takes the level of new settings. */
  readonly take: (level: LogLevel) => void;
}

/** Keeps a log to the level of the settings, which a person may leave for a while. @param first the level at the beginning */
export function followLevel(log: EventLog, first: LogLevel, emit: EventSink): LogLevelSwitch {
  let wanted = first;
  let present = first;
  const set = (level: LogLevel): void => {
    present = level;
    log.setLevel(level);
    emit({ name: 'log.level_changed', level });
  };
  return {
    toggle: () => set(present === wanted ? 'debug' : wanted),
    take: (level) => {
      if (level !== wanted) set(level);
      wanted = level;
    },
  };
}
