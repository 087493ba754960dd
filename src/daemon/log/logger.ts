import { pino } from 'pino';

import type { SettingsFor } from '../../config/schema.ts';
import { standardOutput } from '../../lib/process/streams.ts';
import { type EventLevel, type EventSink, levelOf, type MirrorEvent } from '../../app/events.ts';
import { utcTime } from '../../lib/text/humanize.ts';
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

/** Settings of the log. */
export interface LoggerOptions {
  /** The least severe lines that are written. */
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly colors: boolean;
  /** Receives a line with its line feed, and writes it immediately, so that a killed process has lost none. */
  readonly write: (line: TerminalText, level: EventLevel) => void;
}

/** A log of events. */
export type EventLog = ReturnType<typeof createEventLog>;

/**
 * Makes a log of events: the event's name in `event`, its fields next to it, a sentence in `msg`. Times are UTC, in JSON lines
 * with milliseconds (RFC 3339).
 */
export function createEventLog(options: LoggerOptions) {
  let currentLevel: EventLevel = 'info';
  const log = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    {
      write: (line) => options.write(escapedJson(line), currentLevel),
    },
  );
  return {
    /** Receives events without secrets, and writes those of sufficient level. */
    sink: (event: MirrorEvent): void => {
      const { name, ...fields } = event;
      currentLevel = levelOf(event);
      const message = describeEvent(event);
      if (options.format === 'json') log[currentLevel]({ event: name, ...fields }, String(message));
      else if (log.isLevelEnabled(currentLevel))
        options.write(prettyLine(Date.now(), currentLevel, message, options.colors), currentLevel);
    },
    /** Sets the lowest level of the lines from now on. */
    setLevel: (level: LogLevel): void => {
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

/** The log of `run` according to the settings; if it goes to the journal, lines carry its priorities. */
export function logOf(settings: SettingsFor<never>, { write }: Pick<LogOutput, 'write'>): EventLog {
  const { level, format } = settings.log;
  return createEventLog({
    level,
    format: format === 'auto' ? (standardOutput.isTerminal() ? 'pretty' : 'json') : format,
    colors: standardOutput.mayColor(),
    write,
  });
}

/** Controls the level of a log: the one from the settings, or temporarily `debug`. @param first the initial level */
export function followLevel(log: EventLog, first: LogLevel, emit: EventSink) {
  let wanted = first;
  let present = first;
  const set = (level: LogLevel): void => {
    present = level;
    log.setLevel(level);
    emit({ name: 'log.level_changed', level });
  };
  return {
    /** Switches to `debug`, or back to the level of the settings. */
    toggle: (): void => set(present === wanted ? 'debug' : wanted),
    /** Applies the level of new settings. */
    take: (level: LogLevel): void => {
      if (level !== wanted) set(level);
      wanted = level;
    },
  };
}
