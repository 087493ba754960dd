import { createLoop, type Loop } from '../daemon/loop.ts';
import { createNotifier } from '../daemon/notify.ts';
import { createPulse, type Pulse } from '../daemon/pulse.ts';
import { startTicker } from '../daemon/ticker.ts';
import { EXIT_CODES, type ExitCode, MirrorError, toMirrorError } from '../model/errors.ts';
import type { EventSink, MirrorEvent, Trigger } from '../model/events.ts';
import type { EventLog } from '../observe/logger.ts';
import { runPass } from '../sync/pass.ts';
import { createBoard } from './board.ts';
import { type Mirror, openMirror } from './compose.ts';
import { type Control, listenToSignals } from './control.ts';
import { startDriftWatch } from './drift-watch.ts';
import { createHooks } from './hooks-wiring.ts';
import { startHttp } from './http.ts';
import { watchLeases } from './lease-watch.ts';
import { followSettings, type LoadSettings, type SettingsPart } from './live-settings.ts';
import { followLevel, logOf } from './log.ts';
import { supervise } from './supervise.ts';
import { packageVersion } from './version.ts';

/** How much of the time for stopping hooks have, so that what is left of them is stopped before the program ends. */
const SHARE_OF_HOOKS = 0.9;

/** What the whole daemon works with. */
interface Frame {
  readonly first: ReturnType<LoadSettings>;
  readonly load: LoadSettings;
  readonly log: EventLog;
  readonly control: Control;
  readonly pulse: Pulse;
  readonly emit: EventSink;
  /** Whoever hears of events. */
  readonly sinks: EventSink[];
}

/**
 * The daemon: a pass at once, then one at every tick of the schedule and on SIGHUP, until SIGTERM or SIGINT.
 * @param load reads the settings, now and whenever they may have changed
 * @throws MirrorError when it cannot start
 */
export async function run(load: LoadSettings): Promise<ExitCode> {
  const first = load();
  const pulse = createPulse();
  const log = logOf(first.settings);
  const sinks = [log.sink];
  const emit: EventSink = (event) => {
    if (isProgress(event)) pulse.beat();
    for (const sink of sinks) sink(event);
  };
  const control = listenToSignals((signal) => emit({ name: 'daemon.stopping', signal }));
  try {
    return await mirrorUntilStopped({ first, load, log, control, pulse, emit, sinks });
  } finally {
    control.close();
  }
}

/** Whether an event tells that the pass in hand moves on. */
function isProgress({ name }: MirrorEvent): boolean {
  return /^(?:pass|listing|target|deletion|publish|history|service)\./.test(name);
}

async function mirrorUntilStopped(frame: Frame): Promise<ExitCode> {
  const { emit, pulse, first } = frame;
  const { settings } = first;
  const mirror = await openMirror(settings, emit, { onProgress: pulse.beat });
  try {
    emit({
      name: 'daemon.started',
      version: packageVersion(),
      directory: settings.directory,
      service: settings.service.baseUrl,
      schedule: settings.schedule,
      timezone: settings.timezone,
    });
    const exitCode = await loopUntilStopped(frame, mirror);
    emit({ name: 'daemon.stopped', exitCode });
    return exitCode;
  } finally {
    await mirror.close();
  }
}

async function loopUntilStopped(frame: Frame, mirror: Mirror): Promise<ExitCode> {
  const { first, load, control, emit, sinks } = frame;
  const level = followLevel(frame.log, first.settings.log.level, emit);
  const parts: SettingsPart[] = [mirror, level];
  const settings = followSettings(first, load, parts, () => loop.trigger('settings'), emit);
  const board = createBoard(settings.current, mirror, frame.pulse);
  const supervision = supervise(
    createNotifier(process.env),
    frame.pulse,
    board.live,
    () => settings.current().stuckAfter,
    emit,
  );
  const leases = watchLeases(mirror.store.leases, () => loop.trigger('lease'));
  const http = await startHttp(settings.current, board, emit);
  const hooks = createHooks(settings.current, mirror, emit);
  sinks.push(board.sink, supervision.sink, leases.sink, http.sink, hooks.sink);
  const drift = await startDriftWatch(first.settings, mirror, () => loop.trigger('drift'), emit);
  const loop = createPassLoop(frame, mirror, settings.check, drift.afterPass);
  const ticker = await startTicker(
    first.settings,
    () => loop.trigger('schedule'),
    (nextPassAtMs) => emit({ name: 'daemon.scheduled', nextPassAtMs }),
  );
  parts.push(ticker);
  control.onToggleLevel = level.toggle;
  const reload = async (): Promise<void> => {
    await supervision.whileReloading(settings.check);
    drift.repairAll();
    loop.trigger('signal');
  };
  control.onHangUp = () => void reload();
  loop.trigger('start');
  supervision.ready();

  const exitCode = await control.stopped;
  const timer = setTimeout(() => process.exit(exitCode), settings.current().shutdownTimeout);
  supervision.stopping();
  leases.close();
  await ticker.stop();
  const hooksTimeoutMs = settings.current().shutdownTimeout * SHARE_OF_HOOKS;
  await Promise.all([loop.stop(), drift.close(), settings.close(), hooks.close(hooksTimeoutMs)]);
  await http.close();
  supervision.close();
  clearTimeout(timer);
  return exitCode;
}

/** The loop of passes; each begins with the settings as they are then. */
function createPassLoop(
  { control, pulse, emit }: Frame,
  mirror: Mirror,
  checkSettings: () => Promise<void>,
  afterPass: () => void,
): Loop {
  return createLoop(
    async (trigger, signal) => {
      const end = pulse.begin();
      try {
        // Hints of changed files may get lost; what is settled here holds for this pass already.
        await checkSettings();
        await mirror.closeReplaced();
        await reportedPass(mirror, trigger, signal);
      } finally {
        end();
      }
      afterPass();
    },
    (error) => {
      const { code, message, hint } = toMirrorError(error);
      emit({ name: 'pass.failed', trigger: 'schedule', durationMs: 0, code, message, hint: hint ?? null });
      control.stop(EXIT_CODES.defect);
    },
  );
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
