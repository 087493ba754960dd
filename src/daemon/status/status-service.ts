import { leasesInForce } from '../../mirror/store/leases.ts';
import { publishesWhole } from '../../mirror/store/publish/moves.ts';
import type { StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';

import type { SettingsFor } from '../../config/schema.ts';
import { shareWork } from '../../lib/concurrency/shared-work.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { ProgressMonitor } from '../supervision/progress-monitor.ts';
import { type EventSink, levelOf, type MirrorEvent } from '../../app/events.ts';
import { createMirrorStatus } from './mirror-status.ts';
import { livenessOf } from './readiness.ts';
import { createRecentChanges } from './recent-changes.ts';
import { initialLive, nextLive } from './live.ts';
import type { DaemonReport, Liveness, ReportWithoutChanges } from './status-schema.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import { describeEvent } from '../../app/messages.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import { packageVersion } from '../../lib/process/program-folder.ts';

/** The status of a daemon. */
export type StatusService = ReturnType<typeof createStatusService>;

/**
 * Whether all is well now, as in `/readyz`, for the exit codes of `sync` and `poll --wait` after their pass.
 * An unreadable disk counts as not well.
 */
export async function isReady({ readMirror }: Pick<StatusService, 'readMirror'>): Promise<boolean> {
  try {
    const { readiness } = await readMirror();
    // The pass has verified its targets itself: losing its records costs only requests.
    return readiness.stateProblem !== null || readiness.isReady;
  } catch (error) {
    if (error instanceof MirrorError) return false;
    throw error;
  }
}

/** A warning or an error of the log. */
type Notice = DaemonReport['notices'][number];

/** Requests within this time share a report, in milliseconds. An open page asks this long after a change. */
const REPORT_AGE_MS = 1000;

/** Rare events after which a report is outdated immediately. */
const OUTDATING: ReadonlySet<string> = new Set([
  'pass.finished',
  'pass.failed',
  'pass.abandoned',
  'target.drifted',
  'target.whole',
]);

/** Number of warnings and errors kept. */
const NOTICES_KEPT = 200;

/**
 * Makes the status of a daemon: the single source for status page, health, metrics and supervisor.
 * @param current gives the settings in force
 * @param progress monitors the progress of the running work
 */
export function createStatusService(
  current: () => SettingsFor<'service' | 'directory'>,
  mirror: Pick<Mirror, 'store' | 'state' | 'monitor'>,
  progress: ProgressMonitor,
) {
  let live = initialLive(Date.now());
  const notices: Notice[] = [];
  const readMirror = createMirrorStatus(current, mirror, () => live);
  const sink: EventSink = (event) => {
    live = nextLive(live, event, Date.now());
    if (OUTDATING.has(event.name)) sharedReport = shareWork(report, REPORT_AGE_MS);
    const notice = noticeOf(event, Date.now());
    if (notice !== null) notices.push(notice);
    notices.splice(0, notices.length - NOTICES_KEPT);
  };
  const liveness = (): Liveness =>
    livenessOf(
      { hasStarted: live.hasFinishedPass, isPassing: live.pass !== null, isStopping: live.isStopping },
      progress.idleMs(),
      current().service.timeout,
    );
  const report = async (): Promise<ReportWithoutChanges> => {
    const { directory, schedule, timezone, service } = current();
    const { policy, nowMs, targets, readiness } = await readMirror();
    return {
      version: packageVersion(),
      service: service.baseUrl,
      directory,
      shard: mirror.store.shard,
      schedule,
      timezone,
      nowMs,
      maxStalenessMs: policy.maxStalenessMs,
      canExchange: mirror.store.canExchange,
      publishesWhole: publishesWhole(mirror.store),
      readiness,
      liveness: liveness(),
      live,
      pulls: mirror.monitor.pulls(),
      scan: mirror.monitor.scan(),
      leases: await leasesInForce(mirror.store.layout, Date.now()).catch(() => []),
      disk: await roomOf(directory),
      targets: targets.map(withCommand),
      notices: [...notices],
    };
  };
  let sharedReport = shareWork(report, REPORT_AGE_MS);
  return {
    /** Receives events, without secrets. */
    sink,
    live: () => live,
    /** Whether the daemon makes progress; reads no disk. */
    liveness,
    /** Everything that health checks and metrics need. */
    report: () => sharedReport(),
    /** The rest of the report, which may take long: it reads manifests. */
    changes: createRecentChanges(mirror.store.layout),
    readMirror,
    /** Whether work is running whose progress is worth showing. */
    isBusy: () => mirror.monitor.pulls().length > 0 || mirror.monitor.scan() !== null,
  };
}

function noticeOf(event: MirrorEvent, atMs: number): Notice | null {
  const level = levelOf(event);
  if (level !== 'warn' && level !== 'error') return null;
  return { atMs, level, event: event.name, message: String(describeEvent(event)) };
}

/** A target with the command that approves its held deletion. */
export function withCommand(status: TargetStatus): DaemonReport['targets'][number] {
  return status.held === null ? status : { ...status, approveCommand: ownCommand('approve', status.target) };
}

/** Size and free space of a file system, as df(1) shows it: space reserved for root is in neither. */
export function roomOn({
  bsize,
  blocks,
  bfree,
  bavail,
}: Pick<StatsFs, 'bsize' | 'blocks' | 'bfree' | 'bavail'>): NonNullable<DaemonReport['disk']> {
  return { sizeBytes: bsize * (blocks - bfree + bavail), freeBytes: bsize * bavail };
}

async function roomOf(directory: string): Promise<DaemonReport['disk']> {
  return statfs(directory).then(roomOn, () => null);
}
