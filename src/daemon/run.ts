import { createLoop, type Loop } from './loop.ts';
import { createMemoryRelease } from './memory.ts';
import { createNotifier } from './supervision/notify.ts';
import { createProgressMonitor, type ProgressMonitor } from './supervision/progress-monitor.ts';
import { startTicker } from './triggers/ticker.ts';
import { EXIT_CODES, type ExitCode, MirrorError } from '../lib/errors/errors.ts';
import { eventFailure, type EventSink, type MirrorEvent, type Trigger } from '../mirror/pass/events.ts';
import { type EventLog, followLevel, logOf } from './log/logger.ts';
import { scrubbed } from '../lib/text/scrub.ts';
import { runPass } from '../mirror/pass/pass.ts';
import { createStatusService } from './status/status-service.ts';
import { type Mirror, openMirror } from './start/open-mirror.ts';
import { type Control, listenToSignals } from './triggers/control.ts';
import { startDriftWatch } from './drift/drift-watch.ts';
import { createHooks } from './hooks/create-hooks.ts';
import { startHttp } from './web/status-server.ts';
import { watchLeases, watchRetries } from './triggers/requests.ts';
import { followSettings, type LoadSettings, type SettingsPart } from './settings/live-settings.ts';
import { keepSecrets, type KnownSecrets } from './settings/secrets-of.ts';
import { supervise } from './supervision/supervise.ts';
import { packageVersion } from '../lib/process/version.ts';

/** How much of the time for stopping hooks have, so that what is left of them is stopped before the program ends. */
const SHARE_OF_HOOKS = 0.9;

/** What the whole daemon works with. */
interface DaemonContext {
  readonly first: ReturnType<LoadSettings>;
  readonly load: LoadSettings;
  readonly log: EventLog;
  readonly secrets: KnownSecrets;
  readonly control: Control;
  readonly progress: ProgressMonitor;
  readonly emit: EventSink;
  /** Whoever hears of events. */
  readonly sinks: EventSink[];
}

/**
 * The daemon: a pass at once, then one at every tick of the schedule and on SIGHUP, until SIGTERM or SIGINT.
 * @param load reads the settings, now and whenever they may have changed
 * @param adopt whether a first mirror may be made beside what is in the directory already
 * @throws MirrorError when it cannot start
 */
export async function run(load: LoadSettings, adopt = false): Promise<ExitCode> {
  const first = load();
  const progress = createProgressMonitor();
  const secrets = keepSecrets();
  secrets.learn(first.settings);
  const log = logOf(first.settings, secrets.all);
  const sinks = [log.sink];
  const emit: EventSink = (event) => {
    if (isProgress(event)) progress.touch();
    // Masked once for all who hear of it: page, notifications and supervisor as well as the log.
    const clean = scrubbed(event, secrets.all());
    for (const sink of sinks) sink(clean);
  };
  const control = listenToSignals((signal) => emit({ name: 'daemon.stopping', signal }));
  try {
    return await mirrorUntilStopped({ first, load, log, secrets, control, progress, emit, sinks }, adopt);
  } finally {
    control.close();
  }
}

/** Whether an event tells that the running pass moves on. */
function isProgress({ name }: MirrorEvent): boolean {
  return /^(?:pass|listing|target|deletion|publish|history|service)\./.test(name);
}

async function mirrorUntilStopped(daemon: DaemonContext, adopt: boolean): Promise<ExitCode> {
  const { emit, progress, first } = daemon;
  const { settings } = first;
  const mirror = await openMirror(settings, emit, {
    adopt,
    onProgress: progress.touch,
    beginWork: progress.begin,
    reportFirstAccept: true,
    outlastsPasses: true,
  });
  const opened: Close[] = [];
  try {
    emit({
      name: 'daemon.started',
      version: packageVersion(),
      directory: settings.directory,
      service: settings.service.baseUrl,
      schedule: settings.schedule,
      timezone: settings.timezone,
    });
    const exitCode = await loopUntilStopped(daemon, mirror, opened);
    await closeAll(opened);
    emit({ name: 'daemon.stopped', exitCode });
    return exitCode;
  } finally {
    await closeAll(opened);
    await mirror.close();
  }
}

/** Closes something; what is asked for a second time is done already. */
type Close = () => Promise<void> | void;

async function closeAll(opened: Close[]): Promise<void> {
  await Promise.all(opened.splice(0).map(async (close) => close()));
}

async function loopUntilStopped(daemon: DaemonContext, mirror: Mirror, opened: Close[]): Promise<ExitCode> {
  const { first, load, control, progress, emit, secrets, sinks } = daemon;
  const level = followLevel(daemon.log, first.settings.log.level, emit);
  const parts: SettingsPart[] = [learning(secrets), mirror, level];
  const settings = followSettings(first, load, parts, () => loop.trigger('settings'), emit);
  const status = createStatusService(settings.current, mirror, progress);
  const stuckAfterMs = (): number => settings.current().stuckAfter;
  const supervision = supervise(createNotifier(process.env), progress, status.live, stuckAfterMs, emit);
  const leases = watchLeases(mirror.store.leases, () => loop.trigger('lease'));
  const retries = watchRetries(mirror.store.retries, () => loop.trigger('retry'));
  opened.push(settings.close, supervision.close, leases.close, retries.close);
  // Before anything that may go wrong below: both are to say it.
  sinks.push(status.sink, supervision.sink);
  const http = await startHttp(settings.current, status, emit);
  opened.push(http.close);
  const hooks = createHooks(settings.current, mirror, emit, status);
  opened.push(() => hooks.close(settings.current().shutdownTimeout * SHARE_OF_HOOKS));
  sinks.push(leases.sink, http.sink, hooks.sink);
  const drift = await startDriftWatch(first.settings, mirror, () => loop.trigger('drift'), emit);
  opened.push(drift.close);
  const memory = createMemoryRelease(progress.isWorking);
  opened.push(memory.close);
  const loop = createPassLoop(daemon, mirror, settings.check, () => {
    drift.afterPass();
    memory.atRest();
  });
  opened.push(async () => {
    await loop.stop();
    await mirror.pullsEnded();
  });
  const ticker = await startTicker(
    first.settings,
    () => loop.trigger('schedule'),
    (nextPassAtMs) => emit({ name: 'daemon.scheduled', nextPassAtMs }),
  );
  opened.push(ticker.stop);
  parts.push(ticker);
  await settings.begin();
  control.onToggleLevel = level.toggle;
  const reload = async (): Promise<void> => {
    void http.tryAgain();
    await supervision.whileReloading(settings.check);
    drift.repairAll();
    loop.trigger('signal');
  };
  control.onHangUp = () => void reload();
  loop.trigger('start');
  supervision.ready();

  const exitCode = await control.stopped;
  setTimeout(() => process.exit(exitCode), settings.current().shutdownTimeout).unref();
  supervision.stopping();
  return exitCode;
}

/** Has the secrets of new settings be known before anything is done with them. */
function learning(secrets: KnownSecrets): SettingsPart {
  return {
    prepare: (next) => {
      secrets.learn(next);
      return Promise.resolve({ take: () => {}, abandon: () => Promise.resolve() });
    },
  };
}

/** The loop of passes; each begins with the settings as they are then. */
function createPassLoop(
  { control, progress, emit }: DaemonContext,
  mirror: Mirror,
  checkSettings: () => Promise<void>,
  afterPass: () => void,
): Loop {
  return createLoop(
    async (trigger, signal) => {
      const end = progress.begin();
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
      emit({ name: 'pass.failed', trigger: 'schedule', durationMs: 0, ...eventFailure(error) });
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
