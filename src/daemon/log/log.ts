import type { SettingsFor } from '../../config/schema.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import { createEventLog, type EventLog } from './logger.ts';
import type { SettingsPart } from '../settings/live-settings.ts';
import { standardOutput } from '../../lib/process/streams.ts';

/**
 * The log of `run`, as the settings want it; one that goes to the journal carries its priorities.
 * @param secrets gives what is to be masked
 */
export function logOf(settings: SettingsFor<never>, secrets: () => readonly string[]): EventLog {
  const { level, format } = settings.log;
  return createEventLog({
    level,
    format: format === 'auto' ? (standardOutput.isTerminal() ? 'pretty' : 'json') : format,
    colors: standardOutput.mayColor(),
    secrets,
    write: standardOutput.write,
  });
}

/** The level of a log that runs: as the settings want it, or for a while down to every detail. */
export interface LogLevelSwitch extends SettingsPart {
  /** Goes to `debug`, and back to the level of the settings. */
  readonly toggle: () => void;
}

/** Keeps a log to the level of the settings, which a person may leave for a while. @param first the level at the beginning */
export function followLevel(
  log: EventLog,
  first: ReturnType<EventLog['level']>,
  emit: EventSink,
): LogLevelSwitch {
  let wanted = first;
  const set = (level: typeof first): void => {
    log.setLevel(level);
    emit({ name: 'log.level_changed', level });
  };
  return {
    toggle: () => set(log.level() === wanted ? 'debug' : wanted),
    prepare: ({ log: { level } }) =>
      Promise.resolve({
        take: () => {
          if (level !== wanted) set(level);
          wanted = level;
        },
        abandon: () => Promise.resolve(),
      }),
  };
}
