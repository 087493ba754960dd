import type { ExitCode } from '../lib/errors/errors.ts';
import { createMemoryRelease } from './memory.ts';
import { packageVersion } from '../lib/process/program-folder.ts';
import { scrubbed } from '../lib/text/scrub.ts';
import { PullMonitor } from '../mirror/pass/events.ts';
import { type EventSink, levelOf, type MirrorEvent } from '../app/events.ts';
import { startDriftWatch } from './drift/drift-watch.ts';
import { createHooks, HOOKS_CLOSE_MS } from './hooks/hooks.ts';
import { createLogOutput, type LogOutput } from './log/log-output.ts';
import { type EventLog, followLevel, logOf } from './log/logger.ts';
import { endUnwrittenWith } from '../lib/process/streams.ts';
import { createPassLoop } from './pass-loop.ts';
import { followSettings, type LoadSettings } from './settings/live-settings.ts';
import { keepSecrets } from './settings/known-secrets.ts';
import { type Mirror, openMirror } from '../app/open-mirror.ts';
import { createStatusService } from './status/status-service.ts';
import { openOrStandBy } from './standby.ts';
import { createNotifier, type Notifier } from './supervision/notify.ts';
import { createProgressMonitor, type ProgressMonitor } from './supervision/progress-monitor.ts';
import { supervise } from './supervision/supervise.ts';
import { type Control, listenToSignals } from './triggers/control.ts';
import { PassRequests } from './control/pass-requests.ts';
import { listenToCommands } from './control/daemon-place.ts';
import { watchLeases } from './triggers/lease-watch.ts';
import { startTicker } from './triggers/ticker.ts';
import { startHttp } from './web/server.ts';

/** Time for the program to end once it must stop, in milliseconds: a little more than {@link HOOKS_CLOSE_MS}. */
const SHUTDOWN_TIMEOUT_MS = 30_000;

/** The listeners for events, in the order in which they receive them, each once it exists. */
const LISTENERS = [
  // First, so that its line is written even if another one fails.
  'log',
  // Keeps the status that the listeners below report.
  'status',
  // Reports the status in one line.
  'supervision',
  // Notes that a pass met a lease.
  'leases',
  // Asks for a pass once the state cache works again.
  'recovery',
  // Makes browsers read the status, which includes the event by now.
  'http',
  // Sends it to the commands that wait for a pass.
  'commands',
  // Runs commands and notifies; may emit further events, which the others receive after this one.
  'hooks',
] as const;

/** Everything that the daemon uses from its first to its last event. */
interface DaemonContext {
  readonly first: ReturnType<LoadSettings>;
  readonly load: LoadSettings;
  readonly log: EventLog;
  readonly output: LogOutput;
  readonly secrets: () => readonly string[];
  readonly control: Control;
  readonly pulls: PullMonitor;
  readonly progress: ProgressMonitor;
  readonly notifier: Notifier;
  readonly listeners: Partial<Record<(typeof LISTENERS)[number], EventSink>>;
  readonly emit: EventSink;
  /** The warnings from before the status exists: page and metrics would never show them. */
  readonly early: MirrorEvent[];
}

/**
 * The daemon: a pass immediately, then one at each trigger, until SIGTERM or SIGINT.
 * @param loadSettings reads the settings, now and when they may have changed
 * @param adopt whether a first mirror may be made in a directory that is not empty
 * @throws MirrorError when it cannot start
 */
export async function run(loadSettings: LoadSettings, adopt = false): Promise<ExitCode> {
  const pulls = new PullMonitor();
  const progress = createProgressMonitor(() => pulls.pulls().length > 0);
  const { load, secrets } = keepSecrets(loadSettings);
  const first = load();
  const output = createLogOutput((event) => emit(event));
  endUnwrittenWith(null);
  const log = logOf(first.settings, output);
  const listeners: DaemonContext['listeners'] = { log: log.sink };
  const early: MirrorEvent[] = [];
  const emit: EventSink = (event) => {
    if (isProgress(event)) progress.touch();
    // Masked once for all listeners: log, page, notifications and supervisor.
    const clean = scrubbed(event, secrets());
    for (const name of LISTENERS) listeners[name]?.(clean);
    if (listeners.status === undefined && /^(?:warn|error)$/.test(levelOf(clean))) early.push(clean);
  };
  const control = listenToSignals((signal) => emit({ name: 'daemon.stopping', signal }));
  try {
    const notifier = createNotifier(process.env);
    const parts = { first, load, log, output, secrets, control, pulls, progress, notifier, listeners };
    return await mirrorUntilStopped({ ...parts, emit, early }, adopt);
  } finally {
    control.close();
  }
}

/** Whether an event shows progress of the running pass. */
function isProgress({ name }: MirrorEvent): boolean {
  return /^(?:pass|listing|target|deletion|publish|history|service)\./.test(name);
}

async function mirrorUntilStopped(daemon: DaemonContext, adopt: boolean): Promise<ExitCode> {
  const { emit, pulls, progress, load, control, notifier } = daemon;
  let loaded = daemon.first;
  const open = (present: typeof loaded): Promise<Mirror> => {
    loaded = present;
    return openMirror(loaded.settings, emit, {
      adopt,
      onProgress: progress.touch,
      monitor: pulls,
      reportFirstAccept: true,
      outlastsPasses: true,
    });
  };
  const stop = new AbortController();
  void control.stopped.then(() => stop.abort());
  const standby = { load, notifier, control, stop: stop.signal, emit };
  const mirror = await openOrStandBy(standby, daemon.first, open);
  if (mirror === null) {
    const exitCode = await control.stopped;
    emit({ name: 'daemon.stopped', exitCode });
    return exitCode;
  }
  const { directory, service, schedule, timezone } = loaded.settings;
  const parts: Closable[] = [];
  try {
    const version = packageVersion();
    emit({ name: 'daemon.started', version, directory, service: service.baseUrl, schedule, timezone });
    const exitCode = await passUntilStopped(withSettings(daemon, loaded), mirror, (part) => {
      parts.push(part);
      return part;
    });
    await closeAll(parts);
    emit({ name: 'daemon.stopped', exitCode });
    return exitCode;
  } finally {
    await closeAll(parts);
    await mirror.close();
  }
}

/** The context of a daemon whose settings changed while it was on standby. */
function withSettings(daemon: DaemonContext, first: DaemonContext['first']): DaemonContext {
  if (first === daemon.first) return daemon;
  const log = logOf(first.settings, daemon.output);
  daemon.listeners.log = log.sink;
  return { ...daemon, first, log };
}

/** A part of the daemon. */
interface Closable {
  readonly close: () => Promise<void> | void;
}

/** Closes all parts in the order in which they were made, but together: all of them share the time for the end. */
async function closeAll(parts: Closable[]): Promise<void> {
  await Promise.all(parts.splice(0).map(async (part) => part.close()));
}

/**
 * The whole life of the daemon: its parts, its loop, the triggers of passes, and the wait for its end.
 * @param part registers a part to close at the end, even after a failure
 */
async function passUntilStopped(
  daemon: DaemonContext,
  mirror: Mirror,
  part: <Part extends Closable>(made: Part) => Part,
): Promise<ExitCode> {
  const { first, secrets, control, progress, notifier, listeners, emit } = daemon;
  const settings = part(followSettings(first, daemon.load, emit));
  const level = followLevel(daemon.log, first.settings.log.level, emit);
  control.onToggleLevel = level.toggle;

  const status = createStatusService(settings.current, mirror, progress);
  listeners.status = status.sink;
  listeners.supervision = part(supervise(notifier, status, emit)).sink;
  const memory = part(createMemoryRelease(progress.isWorking));
  const requests = new PassRequests();
  const loop = createPassLoop(daemon, mirror, settings, status, requests, () => {
    drift?.afterPass();
    memory.atRest();
  });
  // The settings have been read since standby refused them. The status takes these events first: listening below may report success.
  const early = daemon.early.splice(0).filter(({ name }) => name !== 'settings.refused');
  for (const event of early) status.sink(event);
  const http = part(await startHttp(settings.current, status, emit, loop.ask));
  for (const event of early) http.sink(event);
  listeners.http = http.sink;
  const hooks = createHooks(settings.current, mirror, emit, status.readMirror);
  part({ close: () => hooks.close(HOOKS_CLOSE_MS) });
  listeners.hooks = hooks.sink;
  part({ close: () => loop.stop().then(() => mirror.pullsEnded()) });

  // All triggers of passes.
  const drift = await startDriftWatch(first.settings, mirror, emit, () => loop.trigger('drift'));
  if (drift !== null) part(drift);
  const ticker = startTicker(
    first.settings,
    () => loop.trigger('schedule'),
    (nextPassAtMs) => emit({ name: 'daemon.scheduled', nextPassAtMs }),
  );
  part({ close: ticker.stop });
  listeners.leases = part(watchLeases(mirror.store.layout, () => loop.trigger('lease'))).sink;
  listeners.recovery = ({ name }) => {
    if (name === 'state.recovered') loop.ask();
  };
  const parts = { current: settings.current, secrets, mirror, status, requests, loop };
  listeners.commands = part(await listenToCommands(parts, emit)).sink;
  await settings.begin(async (next) => {
    // First, because only this refuses valid settings.
    await mirror.take(next);
    level.take(next.log.level);
    ticker.take(next);
    loop.trigger('settings');
  });
  control.onHangUp = async () => {
    notifier.reloading();
    await settings.check();
    notifier.ready();
    // This request must not get lost if a pass with another trigger covers it.
    void requests.add(null);
    loop.trigger('signal');
  };
  daemon.output.report();
  loop.trigger('start');
  notifier.ready();
  return untilStopped(daemon);
}

/** Waits until the daemon must stop. From then on it has a limited time to end. */
async function untilStopped({ control, notifier }: DaemonContext): Promise<ExitCode> {
  const exitCode = await control.stopped;
  setTimeout(() => process.exit(exitCode), SHUTDOWN_TIMEOUT_MS).unref();
  notifier.stopping();
  return exitCode;
}
