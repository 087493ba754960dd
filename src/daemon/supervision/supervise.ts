import type { Notifier } from './notify.ts';
import type { EventSink } from '../../app/events.ts';
import { describeEvent } from '../../app/messages.ts';
import type { Live, Liveness, PassNote } from '../status/status-schema.ts';
import type { StatusService } from '../status/status-service.ts';
import { counted, oneLine, utcTime } from '../../lib/text/humanize.ts';
import { escaped, type TerminalText } from '../../lib/text/terminal-text.ts';

/** Interval of checks for a stuck loop without a watchdog, in milliseconds. */
const LOOK_EVERY_MS = 10_000;

/** The watchdog is fed twice in its time (sd_watchdog_enabled(3)). */
const FED_PER_INTERVAL = 2;

/** Reports to the supervisor, and feeds its watchdog for as long as the running pass makes progress. */
export function supervise(
  notifier: Notifier,
  { live, liveness }: Pick<StatusService, 'live' | 'liveness'>,
  emit: EventSink,
) {
  let said = '';
  const stopWatchdog = startWatchdog(notifier, liveness, (silentMs) =>
    emit({ name: 'loop.stuck', silentMs }),
  );
  return {
    /** Receives events, after the status service. */
    sink: (): void => {
      const text = describeLive(live());
      if (String(text) !== said) notifier.status(text);
      said = String(text);
    },
    close: stopWatchdog,
  };
}

/**
 * Feeds a supervisor's watchdog while the event loop turns and the running work makes progress: a timer alone would
 * continue to feed it while a pass hangs. Durations in milliseconds.
 * @param onStuck called once each time the work gets stuck
 * @returns a function that stops it
 */
export function startWatchdog(
  { watchdog, watchdogIntervalMs }: Pick<Notifier, 'watchdog' | 'watchdogIntervalMs'>,
  liveness: () => Liveness,
  onStuck: (silentMs: number) => void,
): () => void {
  let wasStuck = false;
  const look = (): void => {
    const { isAlive, silentMs } = liveness();
    if (isAlive) watchdog();
    else if (!wasStuck) onStuck(Math.round(silentMs));
    wasStuck = !isAlive;
  };
  look();
  const intervalMs = watchdogIntervalMs === null ? LOOK_EVERY_MS : watchdogIntervalMs / FED_PER_INTERVAL;
  const timer = setInterval(look, intervalMs).unref();
  return () => clearInterval(timer);
}

/** One line that says what the daemon is doing, for a supervisor (systemd: `STATUS=` of sd_notify(3)). */
export function describeLive({
  isStopping,
  pass,
  slow,
  http,
  passes,
  settings,
  nextPassAtMs,
}: Live): TerminalText {
  const clauses = isStopping
    ? ['stopping']
    : [
        pass === null ? describeEnd(passes.at(-1)) : describePass(pass),
        ...(pass === null && settings.problem !== null
          ? [`new settings refused: ${oneLine(settings.problem.message)}`]
          : []),
        ...(pass === null && nextPassAtMs !== null ? [`next pass at ${utcTime(nextPassAtMs)}`] : []),
        ...(slow.length === 0 ? [] : [`${counted(slow.length, 'pull')} of more than a minute`]),
        // A missing page cannot report its own failure.
        ...(http.problem === null ? [] : [`no status page: ${oneLine(http.problem.message)}`]),
      ];
  return escaped(clauses.join('; '));
}

function describePass({ trigger, planned, done }: NonNullable<Live['pass']>): string {
  if (planned === null) return `pass (${trigger}): asking the service`;
  return `pass (${trigger}): ${done} of ${counted(planned.pull, 'pull')} done`;
}

function describeEnd(last: PassNote | undefined): string {
  if (last === undefined) return 'no pass yet';
  const { result, summary, failure, trigger, durationMs } = last;
  if (failure !== null) return `last pass failed: ${failure.message}`;
  if (summary === null) return `last pass ${result}`;
  return String(describeEvent({ name: 'pass.finished', ...summary, trigger, durationMs }));
}
