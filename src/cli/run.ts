import type { SettingsFor } from '../config/schema.ts';
import { createLoop, type Loop } from '../daemon/loop.ts';
import { startSchedule } from '../daemon/schedule.ts';
import { EXIT_CODES, type ExitCode, MirrorError, toMirrorError } from '../model/errors.ts';
import type { EventSink, Trigger } from '../model/events.ts';
import { createEventLog } from '../observe/logger.ts';
import { runPass } from '../sync/pass.ts';
import { type Mirror, openMirror } from './compose.ts';
import { secretsOf } from './secrets-of.ts';
import { type DriftWatch, startDriftWatch } from './drift-watch.ts';
import { STOP_SIGNALS } from './signals.ts';
import { packageVersion } from './version.ts';

type RunSettings = SettingsFor<'service' | 'directory'>;

/** The log of `run`, as the settings want it. */
export function logOf(settings: SettingsFor<never>): EventSink {
  const { level, format } = settings.log;
  const isTerminal = process.stdout.isTTY;
  return createEventLog({
    level,
    format: format === 'auto' ? (isTerminal ? 'pretty' : 'json') : format,
    colors: isTerminal && process.stdout.hasColors(),
    secrets: () => secretsOf(settings),
    write: (line) => process.stdout.write(line),
  });
}

/** What the daemon is told from outside, from its very beginning to its very end. */
interface Control {
  readonly stopped: Promise<ExitCode>;
  readonly stop: (exitCode: ExitCode) => void;
  /** What SIGHUP asks for; nothing until the loop is there. */
  onHangUp: () => void;
}

/**
 * The daemon: a pass at once, then one at every tick of the schedule and on SIGHUP, until SIGTERM or SIGINT.
 * @throws MirrorError when it cannot start
 */
export async function run(settings: RunSettings, emit: EventSink): Promise<ExitCode> {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<ExitCode>();
  const control: Control = { stopped, stop, onHangUp: () => {} };
  const onStop = (signal: NodeJS.Signals): void => {
    emit({ name: 'daemon.stopping', signal });
    stop(EXIT_CODES.ok);
  };
  const onHangUp = (): void => control.onHangUp();
  for (const signal of STOP_SIGNALS) process.on(signal, onStop);
  process.on('SIGHUP', onHangUp);
  try {
    return await mirrorUntilStopped(settings, control, emit);
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, onStop);
    process.off('SIGHUP', onHangUp);
  }
}

async function mirrorUntilStopped(
  settings: RunSettings,
  control: Control,
  emit: EventSink,
): Promise<ExitCode> {
  const mirror = await openMirror(settings, emit);
  try {
    emit({
      name: 'daemon.started',
      version: packageVersion(),
      directory: settings.directory,
      service: settings.service.baseUrl,
      schedule: settings.schedule,
      timezone: settings.timezone,
    });
    const exitCode = await loopUntilStopped(settings, mirror, control, emit);
    emit({ name: 'daemon.stopped', exitCode });
    return exitCode;
  } finally {
    await mirror.close();
  }
}

async function loopUntilStopped(
  settings: RunSettings,
  mirror: Mirror,
  control: Control,
  emit: EventSink,
): Promise<ExitCode> {
  const drift = await startDriftWatch(settings, mirror, () => loop.trigger('drift'), emit);
  const loop = createLoop(
    async (trigger, signal) => {
      await reportedPass(mirror, trigger, signal);
      drift.afterPass();
    },
    (error) => {
      const { code, message, hint } = toMirrorError(error);
      emit({ name: 'pass.failed', trigger: 'schedule', durationMs: 0, code, message, hint: hint ?? null });
      control.stop(EXIT_CODES.defect);
    },
  );
  const schedule = await startSchedule(settings.schedule, settings.timezone, () => {
    loop.trigger('schedule');
    announce();
  });
  const announce = (): void => {
    const nextPassAtMs = schedule.nextRunAtMs();
    if (nextPassAtMs !== null) emit({ name: 'daemon.scheduled', nextPassAtMs });
  };
  control.onHangUp = () => {
    drift.repairAll();
    loop.trigger('signal');
  };
  loop.trigger('start');
  announce();
  const exitCode = await control.stopped;
  await schedule.stop();
  await stopWithin(loop, drift, settings.shutdownTimeout, exitCode);
  return exitCode;
}

/** A pass that fails is reported and waits for the next trigger; only a defect ends the daemon. */
async function reportedPass(mirror: Mirror, trigger: Trigger, signal: AbortSignal): Promise<void> {
  try {
    await runPass(mirror.context, mirror.policy, trigger, signal);
    await mirror.rememberInstallation();
  } catch (error) {
    if (!(error instanceof MirrorError) || error.code === 'internal.defect') throw error;
  }
}

/** Gives the pass in hand its time to be abandoned; what is left of it after that is settled at the next start. */
async function stopWithin(
  loop: Loop,
  drift: DriftWatch,
  timeoutMs: number,
  exitCode: ExitCode,
): Promise<void> {
  const timer = setTimeout(() => process.exit(exitCode), timeoutMs);
  await Promise.all([loop.stop(), drift.close()]);
  clearTimeout(timer);
}
